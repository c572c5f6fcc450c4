package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
)

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestOptions(t *testing.T) {
	args := []string{"--node-id", "n1", "--reserve", "vg0=10Gi,vg1=500M", "--logging-format=json", "-v=4", "--endpoint=unix:///tmp/x.sock"}
	got, err := parseOptions(args, environment("LVM_CSI_DEFAULT_VOLUME_GROUP", "vg0", "LVM_CSI_NODE_ID", "from-the-environment"))
	if err != nil {
		t.Fatal(err)
	}
	want := options{socket: "/tmp/x.sock", json: true, verbosity: 4, driver: driver.Config{Name: "lvm-csi.io", NodeID: "n1", DefaultVG: "vg0",
		Reserve: map[string]int64{"vg0": 10 << 30, "vg1": 500_000_000}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); diff != "" {
		t.Error(diff)
	}
}

// TestWrongOptions: wrong configuration is one clear line, which names the flag and says what it takes.
func TestWrongOptions(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		env  []string
		say  []string
	}{
		"unknown flag":             {args: []string{"--bogus"}, say: []string{"-bogus"}},
		"argument":                 {args: []string{"serve"}, say: []string{`"serve"`, "--help"}},
		"endpoint without scheme":  {args: []string{"--endpoint", "/run/x.sock"}, say: []string{"--endpoint", "unix:///"}},
		"endpoint relative":        {args: []string{"--endpoint", "unix://x.sock"}, say: []string{"--endpoint", "unix:///"}},
		"driver name in capitals":  {args: []string{"--driver-name", "LVM"}, say: []string{"driver name", "lower-case"}},
		"driver name too long":     {args: []string{"--driver-name", strings.Repeat("a", 55)}, say: []string{"driver name", "54"}},
		"VG name too long":         {args: []string{"--default-volume-group", strings.Repeat("v", 56)}, say: []string{"default volume group", "55"}},
		"VG name with doubled '-'": {args: []string{"--default-volume-group", strings.Repeat("v-", 20)}, say: []string{"default volume group", "counts twice"}},
		"VG name that is a path":   {args: []string{"--default-volume-group", "../vg"}, say: []string{"default volume group"}},
		"no node ID":               {args: []string{"--node-id", ""}, say: []string{"node ID"}},
		"reserve without size":     {args: []string{"--reserve", "vg0"}, say: []string{"reserve", "vg0=10Gi"}},
		"reserve of no size":       {args: []string{"--reserve", "vg0=much"}, say: []string{"reserve", "10Gi"}},
		"negative reserve":         {args: []string{"--reserve", "vg0=-1Gi"}, say: []string{"reserve", "negative"}},
		"log format":               {args: []string{"--logging-format", "xml"}, say: []string{"--logging-format", "json"}},
		"environment":              {env: []string{"LVM_CSI_V", "loud"}, say: []string{"LVM_CSI_V"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(test.args, environment(test.env...))
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range test.say {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than one line", err)
			}
		})
	}
}
