package mounter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fakeSys makes a Linux with a /sys of files, where the node of each device is a file that holds its number.
func fakeSys(t *testing.T) (l *Linux, add func(id, name, uuid, suspended string), node func(name, id string)) {
	t.Helper()
	l = New(nil)
	l.sys, l.mapper = t.TempDir(), t.TempDir()
	l.number = readAttribute
	write := func(path, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Error(err)
		}
	}
	add = func(id, name, uuid, suspended string) {
		for _, base := range []string{filepath.Join(l.sys, "dev/block", id), filepath.Join(l.sys, "block/dm-"+id)} {
			write(filepath.Join(base, "dm/name"), name+"\n")
			write(filepath.Join(base, "dm/uuid"), uuid+"\n")
			write(filepath.Join(base, "dm/suspended"), suspended+"\n")
			write(filepath.Join(base, "size"), "8192\n")
		}
	}
	return l, add, func(name, id string) { write(filepath.Join(l.mapper, name), id) }
}

func TestDevice(t *testing.T) {
	l, add, node := fakeSys(t)
	add("253:1", "vg--0-a--1", "LVM-abc", "0")
	node("vg--0-a--1", "253:1")
	add("253:2", "vg--0-stopped", "LVM-abd", "1")
	node("vg--0-stopped", "253:2")
	add("253:3", "vg--0-crypt", "CRYPT-LUKS2-1", "0")
	node("vg--0-crypt", "253:3")
	node("vg--0-stale", "253:1")  // of another device now
	node("vg--0-stale2", "253:9") // of none
	dev, err := l.Device(t.Context(), "vg-0", "a-1")
	if want := (Device{Path: filepath.Join(l.mapper, "vg--0-a--1"), ID: "253:1", UUID: "LVM-abc", Size: 4 << 20}); err != nil || dev != want {
		t.Errorf("got %+v, %v; want %+v", dev, err, want)
	}
	for lv, want := range map[string]error{
		"none": ErrInactive, "stale": ErrInactive, "stale2": ErrInactive, "../a": ErrInactive, "stopped": ErrSuspended,
	} {
		if _, err := l.Device(t.Context(), "vg-0", lv); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", lv, err, want)
		}
	}
	if _, err := l.Device(t.Context(), "vg-0", "crypt"); err == nil || errors.Is(err, ErrInactive) {
		t.Errorf("another's mapping: %v", err)
	}
}

func TestDeviceNodeThatLags(t *testing.T) {
	l, add, node := fakeSys(t)
	add("253:1", "vg-a", "LVM-abc", "0")
	go func() {
		time.Sleep(100 * time.Millisecond)
		node("vg-a", "253:1")
	}()
	if dev, err := l.Device(t.Context(), "vg", "a"); err != nil || dev.ID != "253:1" {
		t.Errorf("got %+v, %v", dev, err)
	}
}

// An lvcreate that is killed between making the device and loading its table leaves one of size 0, with a node or, before Linux
// 5.15, without: the LV is to be activated, and nobody need wait for the node.
func TestDeviceWithoutATable(t *testing.T) {
	l, add, node := fakeSys(t)
	for i, name := range []string{"vg-a", "vg-b"} {
		id := fmt.Sprintf("253:%d", i)
		add(id, name, "LVM-"+name, "0")
		for _, size := range []string{filepath.Join(l.sys, "dev/block", id, "size"), filepath.Join(l.sys, "block/dm-"+id, "size")} {
			if err := os.WriteFile(size, []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	node("vg-a", "253:0")
	start := time.Now()
	for _, lv := range []string{"a", "b"} {
		if _, err := l.Device(t.Context(), "vg", lv); !errors.Is(err, ErrInactive) {
			t.Errorf("%s: %v", lv, err)
		}
	}
	if took := time.Since(start); took > nodePatience/2 {
		t.Errorf("it waited %s", took)
	}
}
