package vm

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// splitter parts what comes from the guest's port into the program's output,
// passed on at once, and messages: NUL, the word, a space, the message, newline
// (see guest/init.sh). Output that merely looks like the beginning of a message
// is held back until more has come.
type splitter struct {
	word    string
	output  io.Writer
	message func(string)
	held    []byte
}

// Write never fails for want of a reader of the output: the guest must get to
// its end all the same.
func (s *splitter) Write(p []byte) (int, error) {
	data := append(s.held, p...)
	s.held = nil
	mark := []byte("\x00" + s.word + " ")
	for len(data) > 0 {
		start := bytes.IndexByte(data, 0)
		if start < 0 {
			s.emit(data)
			break
		}
		s.emit(data[:start])
		data = data[start:]
		switch end := bytes.IndexByte(data, '\n'); {
		case !bytes.HasPrefix(data, mark[:min(len(mark), len(data))]): // a NUL of the program's own
			s.emit(data[:1])
			data = data[1:]
		case end < 0:
			s.held = bytes.Clone(data)
			return len(p), nil
		default:
			s.message(string(data[len(mark):end]))
			data = data[end+1:]
		}
	}
	return len(p), nil
}

// flush passes on what looked like a message and will not become one.
func (s *splitter) flush() {
	s.emit(s.held)
	s.held = nil
}

func (s *splitter) emit(p []byte) {
	if len(p) > 0 {
		_, _ = s.output.Write(p)
	}
}

// activity knows when something was last heard.
type activity struct {
	mu   sync.Mutex
	last time.Time
	busy bool
}

func newActivity() *activity { return &activity{last: time.Now()} }

// silence is how long nothing was heard. Output that waits for a slow reader on
// the host is no silence of the guest's.
func (a *activity) silence() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy {
		return 0
	}
	return time.Since(a.last)
}

func (a *activity) set(busy bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last, a.busy = time.Now(), busy
}

// writer notes each write to w.
func (a *activity) writer(w io.Writer) io.Writer { return notingWriter{a, w} }

type notingWriter struct {
	activity *activity
	w        io.Writer
}

func (n notingWriter) Write(p []byte) (int, error) {
	n.activity.set(true)
	defer n.activity.set(false)
	return n.w.Write(p)
}
