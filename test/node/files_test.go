//go:build vm

package node

import (
	"io"
	"os"
	"strings"
	"testing"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

// writeBlock writes text at the beginning of a device, through to the disk.
func writeBlock(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(text)
	return err
}

func readBlock(t *testing.T, path string, n int) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := make([]byte, n)
	if _, err := io.ReadFull(file, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fill writes the byte c all over a device.
func fill(path string, c byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	chunk := []byte(strings.Repeat(string(c), 1<<20))
	for {
		if _, err := file.Write(chunk); err != nil {
			break // the end of the device
		}
	}
	return file.Sync()
}

// countByte counts the bytes c in a device, past the page cache of another open.
func countByte(t *testing.T, path string, c byte) int {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	chunk := make([]byte, 1<<20)
	for {
		got, err := file.Read(chunk)
		n += strings.Count(string(chunk[:got]), string(c))
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
