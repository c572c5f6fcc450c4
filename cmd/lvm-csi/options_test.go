package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
	"github.com/lvm-csi/lvm-csi/pkg/registration"
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
	args := []string{"--node-id", "n1", "--reserve", "vg0=10Gi,vg1=500M", "--logging-format=json", "-v=4", "--endpoint=unix:///tmp/x.sock",
		"--kubelet-registration=/var/lib/kubelet/plugins_registry", "--http-endpoint", ":9809", "--tools=image"}
	got, err := parseOptions(args, environment("LVM_CSI_DEFAULT_VOLUME_GROUP", "vg0", "LVM_CSI_NODE_ID", "from-the-environment"))
	if err != nil {
		t.Fatal(err)
	}
	want := options{socket: "/tmp/x.sock", json: true, verbosity: 4, tools: imageTools, http: ":9809",
		plugin: registration.Plugin{Folder: "/var/lib/kubelet/plugins_registry", Name: "lvm-csi.io", Endpoint: "/tmp/x.sock"}, driver: driver.Config{Name: "lvm-csi.io", NodeID: "n1", DefaultVG: "vg0",
			Reserve: map[string]int64{"vg0": 10 << 30, "vg1": 500_000_000}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); diff != "" {
		t.Error(diff)
	}
}

// By themselves neither registration nor the HTTP endpoint are on, and the tools are the host's.
func TestDefaults(t *testing.T) {
	got, err := parseOptions([]string{"--node-id", "n1"}, environment())
	if err != nil || got.plugin != (registration.Plugin{}) || got.http != "" || got.tools != hostTools || got.driver.NoTools {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = parseOptions([]string{"--node-id", "n1"}, environment("LVM_CSI_TOOLS", "none"))
	if err != nil || !got.driver.NoTools {
		t.Errorf("without tools: %+v, %v", got, err)
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
		"tools":                    {args: []string{"--tools", "mine"}, say: []string{"--tools", "host, image or none"}},
		"registration relative":    {args: []string{"--kubelet-registration", "plugins_registry"}, say: []string{"--kubelet-registration", "absolute"}},
		"registration too long":    {args: []string{"--kubelet-registration", "/" + strings.Repeat("k", 90)}, say: []string{"--kubelet-registration", "107"}},
		"registration of nothing":  {args: []string{"--kubelet-registration", "/k", "--tools=none"}, say: []string{"--kubelet-registration", "--tools=none"}},
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
