package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

// proxy lets the API server connect to kubelets: it asks for the address of a node (HTTP CONNECT) and gets the port of this
// host that QEMU forwards to that node's kubelet.
func (p *controlPlane) proxy() error {
	_ = os.Remove(p.egressSocket())
	listener, err := net.Listen("unix", p.egressSocket())
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.forward(conn)
		}
	}()
	return nil
}

func (p *controlPlane) forward(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	req, err := http.ReadRequest(reader)
	if err != nil || req.Method != http.MethodConnect {
		return
	}
	host, _, _ := strings.Cut(req.Host, ":")
	port := 0
	for _, n := range p.state.nodes() {
		if n.address() == host {
			port = n.KubeletPort
		}
	}
	target, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		fmt.Fprintf(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer target.Close()
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(target, reader)
		_ = target.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, target)
}
