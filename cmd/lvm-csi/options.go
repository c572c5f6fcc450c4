package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/lvm-csi/lvm-csi/pkg/driver"
	"github.com/lvm-csi/lvm-csi/pkg/registration"
)

// options are the command line.
type options struct {
	driver    driver.Config
	socket    string              // absolute path
	tools     string              // hostTools, imageTools or noTools
	plugin    registration.Plugin // its Folder is "" when the driver does not register
	http      string              // "" is off
	json      bool
	verbosity int
	version   bool
}

// parseOptions reads flags, each of which has a default in the environment: LVM_CSI_ and its name in capitals, with '_'
// for '-'. The error is one line for the operator.
func parseOptions(args []string, env func(string) (string, bool)) (options, error) {
	o := options{driver: driver.Config{Reserve: map[string]int64{}}}
	hostname, _ := os.Hostname()
	flags := flag.NewFlagSet("lvm-csi", flag.ContinueOnError)
	var endpoint, format string
	flags.StringVar(&endpoint, "endpoint", "unix:///run/lvm-csi/csi.sock", "the CSI `socket`, as unix:///path; its folder must exist")
	flags.StringVar(&o.driver.NodeID, "node-id", hostname, "the `name` of this node in the cluster; it must never change")
	flags.StringVar(&o.driver.Name, "driver-name", "lvm-csi.io", "the `name` of the driver, in StorageClasses, LVM tags and the topology key")
	flags.StringVar(&o.driver.DefaultVG, "default-volume-group", "", "the volume `group` of StorageClasses that name none")
	flags.Func("reserve", "bytes to leave free, as `vg=size` (vg0=10Gi); several are separated by commas", func(s string) error { return addReserves(o.driver.Reserve, s) })
	flags.StringVar(&o.tools, "tools", hostTools, "whose lvm, mkfs and fsck to run: the `host`'s, those of the image, or none (the instance beside the resizer)")
	flags.StringVar(&o.plugin.Folder, "kubelet-registration", "", "kubelet's plugins_registry `folder`, to register the driver in")
	flags.StringVar(&o.http, "http-endpoint", "", "the `address` for /healthz and /readyz, such as :9809")
	flags.StringVar(&format, "logging-format", "text", "`text` or json")
	flags.IntVar(&o.verbosity, "v", 0, "log `level`: 2 adds why capacity is zero, 4 adds each call")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")

	flags.SetOutput(io.Discard) // a wrong flag is one line, not all of the usage
	var envErr error
	flags.VisitAll(func(f *flag.Flag) {
		name := "LVM_CSI_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := env(name); ok && envErr == nil {
			if err := f.Value.Set(value); err != nil {
				envErr = fmt.Errorf("environment variable %s: %w", name, err)
			}
		}
	})
	if envErr != nil {
		return o, envErr
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stdout)
			flags.Usage()
		}
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("argument %q is unexpected; see --help", flags.Arg(0))
	}
	if o.version {
		return o, nil
	}
	switch format {
	case "text":
	case "json":
		o.json = true
	default:
		return o, fmt.Errorf("--logging-format is %q; choose text or json", format)
	}
	var ok bool
	if o.socket, ok = strings.CutPrefix(endpoint, "unix://"); !ok || !filepath.IsAbs(o.socket) {
		return o, fmt.Errorf("--endpoint is %q; give it as unix:///absolute/path", endpoint)
	}
	switch o.tools {
	case hostTools, imageTools:
	case noTools:
		o.driver.NoTools = true
	default:
		return o, fmt.Errorf("--tools is %q; choose host, image or none", o.tools)
	}
	if o.plugin.Folder != "" {
		if err := o.checkRegistration(); err != nil {
			return o, fmt.Errorf("--kubelet-registration: %w", err)
		}
	}
	var level klog.Level
	if err := level.Set(fmt.Sprint(o.verbosity)); err != nil {
		return o, fmt.Errorf("-v: %w", err)
	}
	return o, o.driver.Check()
}

// checkRegistration completes what kubelet is told. The endpoint is the socket's path, which the pod therefore has where the host
// has it.
func (o *options) checkRegistration() error {
	switch {
	case !filepath.IsAbs(o.plugin.Folder):
		return fmt.Errorf("%q is not an absolute path", o.plugin.Folder)
	case o.tools == noTools:
		return errors.New("a driver with --tools=none mounts nothing; do not register it")
	}
	o.plugin.Name, o.plugin.Endpoint = o.driver.Name, o.socket
	return o.plugin.Check()
}

// addReserves reads "vg=size,vg=size", sizes as Kubernetes writes them.
func addReserves(reserves map[string]int64, s string) error {
	for pair := range strings.SplitSeq(s, ",") {
		vg, size, ok := strings.Cut(pair, "=")
		if !ok {
			return errors.New("give it as vg=size, such as vg0=10Gi")
		}
		q, err := resource.ParseQuantity(size)
		if err != nil {
			return fmt.Errorf("the size of %q is none (write 10Gi or 500Mi)", pair)
		}
		reserves[vg] = q.Value()
	}
	return nil
}
