package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// serviceIP is the address that pods know the API server by: the first of --service-cluster-ip-range.
const serviceIP = "10.96.0.1"

// users of the API server, with the groups that RBAC and the node authorizer know them by.
var users = map[string]string{"admin": "system:masters", "system:kube-controller-manager": "", "system:kube-scheduler": ""}

// controlPlane is etcd, the API server, the controller manager and the scheduler, as children of this process.
type controlPlane struct {
	dir      string // keys, configuration, logs, etcd's data
	programs map[string]string
	state    *state

	mu        sync.Mutex
	apiserver *process
}

// prepare writes keys and configuration.
func (p *controlPlane) prepare() error {
	ips := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(serviceIP)}
	for n := range maxNodes {
		ips = append(ips, net.ParseIP(hostAddress(n+1)))
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("kubernetes", ips, []string{"localhost", "kubernetes.default.svc"})
	if err != nil {
		return err
	}
	account, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	accountKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(account)})
	var tokens strings.Builder
	for user, group := range users {
		p.state.Tokens[user] = rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", p.state.Tokens[user], user, user, group)
	}
	// Nodes may join later; the API server reads this file once.
	for n := range maxNodes {
		user := "system:node:" + nodeName(n+1)
		p.state.Tokens[user] = rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", p.state.Tokens[user], user, user, "system:nodes")
	}
	files := map[string][]byte{
		"ca.crt": cert, "apiserver.key": key, "accounts.key": accountKey, "tokens.csv": []byte(tokens.String()),
		"egress.yaml": fmt.Appendf(nil, egressConfig, p.egressSocket()), "audit.yaml": []byte(auditPolicy),
		"kubeconfig":            p.kubeconfig("admin", "https://"+p.address()),
		"scheduler.kubeconfig":  p.kubeconfig("system:kube-scheduler", "https://"+p.address()),
		"controller.kubeconfig": p.kubeconfig("system:kube-controller-manager", "https://"+p.address()),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// egressConfig makes the API server reach kubelets through proxy: their addresses exist only in QEMU.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %s}}}
`

// auditPolicy keeps the requests of service accounts outside kube-system, so that tests can count them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

func (p *controlPlane) egressSocket() string { return filepath.Join(p.dir, "egress.sock") }
func (p *controlPlane) address() string      { return fmt.Sprintf("127.0.0.1:%d", p.state.APIPort) }

func (p *controlPlane) kubeconfig(user, server string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: lvm-csi
clusters: [{name: lvm-csi, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: user, user: {token: %q}}]
contexts: [{name: lvm-csi, context: {cluster: lvm-csi, user: user}}]
`, server, filepath.Join(p.dir, "ca.crt"), p.state.Tokens[user])
}

// start brings everything up and returns when the API server is ready. All ends with this process.
func (p *controlPlane) start(ctx context.Context) error {
	etcd := fmt.Sprintf("http://127.0.0.1:%d", p.state.EtcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", p.state.EtcdPeerPort)
	// Nothing here has to outlive a power cut of the host.
	if _, err := p.run("etcd", "--data-dir", filepath.Join(p.dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync"); err != nil {
		return err
	}
	if err := p.proxy(); err != nil {
		return err
	}
	if err := p.startAPIServer(ctx); err != nil {
		return err
	}
	if _, err := p.run("kube-controller-manager", "--kubeconfig", filepath.Join(p.dir, "controller.kubeconfig"), "--leader-elect=false",
		"--use-service-account-credentials", "--service-account-private-key-file", filepath.Join(p.dir, "accounts.key"),
		"--root-ca-file", filepath.Join(p.dir, "ca.crt"), "--secure-port=0"); err != nil {
		return err
	}
	_, err := p.run("kube-scheduler", "--kubeconfig", filepath.Join(p.dir, "scheduler.kubeconfig"), "--leader-elect=false", "--secure-port=0")
	return err
}

// startAPIServer starts the API server if it does not run and waits until it is ready.
func (p *controlPlane) startAPIServer(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.apiserver == nil {
		var err error
		p.apiserver, err = p.run("kube-apiserver", "--etcd-servers", fmt.Sprintf("http://127.0.0.1:%d", p.state.EtcdPort),
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.state.APIPort), "--advertise-address=10.0.1.2", "--endpoint-reconciler-type=none",
			"--tls-cert-file", filepath.Join(p.dir, "ca.crt"), "--tls-private-key-file", filepath.Join(p.dir, "apiserver.key"),
			"--token-auth-file", filepath.Join(p.dir, "tokens.csv"), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-cluster-ip-range=10.96.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file", filepath.Join(p.dir, "accounts.key"), "--service-account-signing-key-file", filepath.Join(p.dir, "accounts.key"),
			"--kubelet-preferred-address-types=InternalIP", "--egress-selector-config-file", filepath.Join(p.dir, "egress.yaml"), "--allow-privileged",
			"--audit-policy-file", filepath.Join(p.dir, "audit.yaml"), "--audit-log-path", filepath.Join(p.dir, "audit.log"), "--shutdown-delay-duration=0s")
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("the API server does not get ready"))
	defer cancel()
	for !p.ready(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; see %s", context.Cause(ctx), filepath.Join(p.dir, "kube-apiserver.log"))
		case <-p.apiserver.exited:
			return fmt.Errorf("the API server ended; see %s", filepath.Join(p.dir, "kube-apiserver.log"))
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

func (p *controlPlane) ready(ctx context.Context) bool {
	cert, err := os.ReadFile(filepath.Join(p.dir, "ca.crt"))
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.address()+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+p.state.Tokens["admin"])
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// stopAPIServer kills the API server, as a crash does.
func (p *controlPlane) stopAPIServer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.apiserver == nil {
		return
	}
	_ = p.apiserver.cmd.Process.Kill()
	<-p.apiserver.exited
	p.apiserver = nil
}

// process is a child of this process that ends with it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// run starts a program with a log in the folder.
func (p *controlPlane) run(name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.programs[name], args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	child := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent death signal comes when the thread that started it ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(child.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return child, nil
}

// freePorts finds ports of the loopback address that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all at once, so that they differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
