package vm

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"
)

func TestSplitter(t *testing.T) {
	tests := []struct {
		name, in, output string
		messages         []string
	}{
		{"output only", "one\ntwo", "one\ntwo", nil},
		{"message only", "\x00W start\n", "", []string{"start"}},
		{"message after a line without its end", "ab\x00W exit 7\n", "ab", []string{"exit 7"}},
		{"output after a message", "\x00W start\nab\x00W exit 0\n", "ab", []string{"start", "exit 0"}},
		{"another word", "\x00X exit 7\n", "\x00X exit 7\n", nil},
		{"zeros", "\x00\x00\x00a", "\x00\x00\x00a", nil},
		{"zero before a message", "\x00\x00W powercut\n", "\x00", []string{"powercut"}},
		{"a message cut short", "a\x00W exi", "a\x00W exi", nil},
		{"a word cut short", "a\x00", "a\x00", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// However the stream is cut into pieces, the result is the same.
			for size := 1; size <= len(test.in); size++ {
				var output bytes.Buffer
				var messages []string
				s := &splitter{word: "W", output: &output, message: func(m string) { messages = append(messages, m) }}
				for piece := range slices.Chunk([]byte(test.in), size) {
					if n, err := s.Write(piece); n != len(piece) || err != nil {
						t.Fatalf("Write = %d, %v", n, err)
					}
				}
				s.flush()
				if output.String() != test.output || !slices.Equal(messages, test.messages) {
					t.Errorf("in pieces of %d: %q %q, want %q %q", size, output.String(), messages, test.output, test.messages)
				}
			}
		})
	}
}

// All output before a message must be out when the message is told.
func TestSplitterOrder(t *testing.T) {
	var output bytes.Buffer
	var seen string
	s := &splitter{word: "W", output: &output, message: func(string) { seen = output.String() }}
	_, _ = io.WriteString(s, "last words\x00W exit 0\nlater")
	if seen != "last words" {
		t.Errorf("at the message the output was %q", seen)
	}
}

func TestActivityWaitsForSlowReader(t *testing.T) {
	a := &activity{last: time.Now().Add(-time.Hour)}
	if a.silence() < time.Hour {
		t.Errorf("silence = %v after an hour", a.silence())
	}
	read, write := io.Pipe()
	go func() { _, _ = a.writer(write).Write([]byte("x")) }()
	for a.silence() != 0 { // until the write has begun
		time.Sleep(time.Millisecond)
	}
	a.mu.Lock()
	a.last = time.Now().Add(-time.Hour)
	a.mu.Unlock()
	if a.silence() != 0 {
		t.Error("output that nobody reads counts as silence")
	}
	_, _ = read.Read(make([]byte, 1))
}
