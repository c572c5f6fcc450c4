package vm

import (
	"strings"
	"testing"
)

func TestSpecName(t *testing.T) {
	plain := Spec{}.Name()
	same := map[string]Spec{
		"the default suite by its name": {Suite: DefaultSuite},
		"a package of the base set":     {Packages: []string{"lvm2"}},
	}
	for name, spec := range same {
		if got := spec.Name(); got != plain {
			t.Errorf("%s: %s, want %s", name, got, plain)
		}
	}
	other := map[string]Spec{
		"another suite":   {Suite: "trixie"},
		"another package": {Packages: []string{"runc"}},
	}
	for name, spec := range other {
		if got := spec.Name(); got == plain {
			t.Errorf("%s: same name %s", name, got)
		}
	}
	if order := (Spec{Packages: []string{"b", "a"}}).Name(); order != (Spec{Packages: []string{"a", "b"}}).Name() {
		t.Error("the order of packages makes another image")
	}
}

func TestSpecNameDependsOnScripts(t *testing.T) {
	before := Spec{}.Name()
	for name, script := range map[string]*string{"setup": &setupScript, "initrd": &initrdScript, "stage1": &stage1Script} {
		kept := *script
		*script += "#"
		if (Spec{}).Name() == before {
			t.Errorf("%s.sh does not count", name)
		}
		*script = kept
	}
}

func TestSpecUnknownSuite(t *testing.T) {
	err := Spec{Suite: "sid"}.validate()
	if err == nil || !strings.Contains(err.Error(), "bookworm") {
		t.Errorf("got %v, want an error that names the known suites", err)
	}
}
