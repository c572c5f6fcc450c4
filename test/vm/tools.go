package vm

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// packageOf names the Debian package of each program that the host must have.
var packageOf = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"mmdebstrap":         "mmdebstrap",
	"mkfs.ext4":          "e2fsprogs",
	"newuidmap":          "uidmap",
}

// ErrMissingTools is returned, wrapped, where the host lacks programs; the
// error says how to install them.
var ErrMissingTools = errors.New("programs are missing")

func findTools(programs ...string) error {
	var packages []string
	for _, program := range programs {
		if !hasTool(program) {
			packages = append(packages, packageOf[program])
		}
	}
	if len(packages) == 0 {
		return nil
	}
	return fmt.Errorf("%w: apt-get install %s (or make tools)", ErrMissingTools, strings.Join(packages, " "))
}

// hasTool also looks where users' PATHs seldom lead.
func hasTool(program string) bool {
	for _, name := range []string{program, filepath.Join("/usr/sbin", program), filepath.Join("/sbin", program)} {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}
