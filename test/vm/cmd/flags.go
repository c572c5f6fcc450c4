package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-csi/lvm-csi/test/vm"
)

// parse reads the command line; it writes the usage itself.
func parse(args []string) (vm.Config, error) {
	var cfg vm.Config
	var packages list
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: vm [flags] -- program [args...]\n\n")
		flags.PrintDefaults()
	}
	suite := cmp.Or(os.Getenv("VM_SUITE"), vm.DefaultSuite)
	flags.StringVar(&cfg.Spec.Suite, "suite", suite, "Debian `release`, one of "+strings.Join(vm.Suites, ", ")+"; also VM_SUITE")
	flags.Var(&packages, "package", "Debian `package` to add to the image; repeatable")
	flags.StringVar(&cfg.Memory, "memory", "2G", "the guest's memory")
	flags.IntVar(&cfg.CPUs, "cpus", 2, "the guest's processors")
	flags.Func("disks", "data disks: `sizes` such as 4x4G or 10G,2x512M", func(text string) (err error) {
		cfg.Disks, err = parseDisks(text)
		return err
	})
	flags.Var((*list)(&cfg.Files), "file", "one more `path` to copy into /job; repeatable")
	flags.Var((*list)(&cfg.Env), "env", "`K=V` for the program's environment; repeatable")
	flags.StringVar(&cfg.Out, "out", "", "`folder` that the guest sees as /out")
	flags.DurationVar(&cfg.Timeout, "timeout", 20*time.Minute, "give up after this long")
	flags.DurationVar(&cfg.Idle, "idle", 3*time.Minute, "give up after this long without output (so run tests with -test.v)")
	flags.BoolVar(&cfg.Keep, "keep", false, "keep the run's folder, with console.log and the disks")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return cfg, errors.New("no program named")
	}
	for _, pair := range cfg.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return cfg, fmt.Errorf("-env %q: want K=V", pair)
		}
	}
	cfg.Spec.Packages = packages
	cfg.Program, cfg.Args = flags.Arg(0), flags.Args()[1:]
	return cfg, nil
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// maxDisks keeps the machine's PCI slots from running out.
const maxDisks = 20

// parseDisks reads sizes such as 4x4G,512M, in powers of 1024, into bytes.
func parseDisks(text string) ([]int64, error) {
	var sizes []int64
	for part := range strings.SplitSeq(text, ",") {
		count := 1
		if before, after, ok := strings.Cut(part, "x"); ok {
			n, err := strconv.Atoi(before)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q: not a number of disks", before)
			}
			count, part = n, after
		}
		size, err := parseSize(part)
		if err != nil {
			return nil, err
		}
		if len(sizes)+count > maxDisks {
			return nil, fmt.Errorf("more than %d disks", maxDisks)
		}
		for range count {
			sizes = append(sizes, size)
		}
	}
	return sizes, nil
}

func parseSize(text string) (int64, error) {
	const units = "KMGT"
	digits, shift := text, 0
	if text != "" {
		if i := strings.IndexByte(units, text[len(text)-1]); i >= 0 {
			digits, shift = text[:len(text)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q: not a size such as 512M or 4G", text)
	}
	return n << shift, nil
}
