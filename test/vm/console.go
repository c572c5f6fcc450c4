package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"
)

// console is the guest's first serial port, where its kernel prints.
type console struct {
	conn  net.Conn
	log   *os.File
	heard *activity
	done  chan struct{}
}

func newConsole(conn net.Conn, path string) (*console, error) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return &console{conn: conn, log: log, heard: newActivity(), done: make(chan struct{})}, nil
}

// read copies to the log until QEMU is gone.
func (c *console) read() {
	defer close(c.done)
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.conn.Read(buffer)
		if err != nil {
			return
		}
		_, _ = c.log.Write(buffer[:n])
		c.heard.set(false)
	}
}

func (c *console) close() {
	<-c.done
	_ = c.conn.Close()
	_ = c.log.Close()
}

func (c *console) text() string {
	text, _ := os.ReadFile(c.log.Name())
	return string(text)
}

// askKernel makes the kernel print what its processors do and which tasks are
// blocked: sysrq l and w, see its Documentation/admin-guide/sysrq.rst, typed on
// the PS/2 keyboard. A guest whose processors do nothing any more does not
// answer.
func (m *Machine) askKernel() {
	const patience = 5 * time.Second
	_ = m.qmp.SetDeadline(time.Now().Add(patience))
	decoder := json.NewDecoder(m.qmp)
	if err := decoder.Decode(&struct{}{}); err != nil { // the greeting
		return
	}
	if qmpCommand(m.qmp, decoder, `{"execute": "qmp_capabilities"}`) != nil {
		return
	}
	// Level 8 first, or the answer would not reach the console.
	for _, key := range []string{"8", "l", "w"} {
		command := fmt.Sprintf(`{"execute": "send-key", "arguments": {"keys": [
			{"type": "qcode", "data": "alt"}, {"type": "qcode", "data": "sysrq"},
			{"type": "qcode", "data": %q}]}}`, key)
		if qmpCommand(m.qmp, decoder, command) != nil {
			return
		}
	}
	// The answer has no end mark: it is over when the console falls silent.
	asked := time.Now()
	m.console.heard.set(false)
	for m.console.heard.silence() < time.Second && time.Since(asked) < patience {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-m.exited:
			return
		}
	}
}

func qmpCommand(conn net.Conn, decoder *json.Decoder, command string) error {
	if _, err := fmt.Fprintln(conn, command); err != nil {
		return err
	}
	for {
		var answer struct {
			Return *json.RawMessage `json:"return"`
			Error  *json.RawMessage `json:"error"`
		}
		switch err := decoder.Decode(&answer); {
		case err != nil:
			return err
		case answer.Error != nil:
			return fmt.Errorf("qmp: %s", *answer.Error)
		case answer.Return != nil:
			return nil
		} // else an event
	}
}
