// Package docs holds the pages for operators. Here they are held to the code: to its flags, parameters, values and words.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// section is what a page has below a heading of the second level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// all are the first groups of all matches, in order, each once.
func all(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// rows are the keys of a section's table.
func rows(t *testing.T, heading string) []string {
	t.Helper()
	return all("(?m)^\\| `([^`]+)` \\|", section(t, "parameters.md", heading))
}

func TestFlags(t *testing.T) {
	var flags, variables []string
	for _, name := range all(`flags\.\w+\((?:&[\w.]+, )?"([a-z-]+)"`, read(t, "../cmd/lvm-csi/options.go")) {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		flags = append(flags, dashes+name)
		variables = append(variables, "LVM_CSI_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	slices.Sort(flags)
	slices.Sort(variables)
	if diff := cmp.Diff(flags, rows(t, "Flags")); len(flags) < 10 || diff != "" {
		t.Errorf("flags (-driver +page):\n%s", diff)
	}
	if diff := cmp.Diff(variables, all("`(LVM_CSI_[A-Z_]+)`", section(t, "parameters.md", "Flags"))); diff != "" {
		t.Errorf("variables (-driver +page):\n%s", diff)
	}
}

func TestStorageClassParameters(t *testing.T) {
	keys := append(all(`case "([A-Za-z]+)":`, read(t, "../pkg/driver/class.go")), "csi.storage.k8s.io/fstype")
	slices.Sort(keys)
	if diff := cmp.Diff(keys, rows(t, "StorageClass parameters")); len(keys) < 5 || diff != "" {
		t.Errorf("parameters (-driver +page):\n%s", diff)
	}
}

func TestChartValues(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "../deploy/chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key, value := range values {
		below, _ := value.(map[string]any)
		for name := range below {
			keys = append(keys, key+"."+name)
		}
		if len(below) == 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if diff := cmp.Diff(keys, rows(t, "Chart values")); diff != "" {
		t.Errorf("values (-chart +page):\n%s", diff)
	}
}

// What a page says that the driver says is in the driver, word by word; "…" is whatever is filled in.
func TestWordsOfTheDriver(t *testing.T) {
	var source strings.Builder
	for _, folder := range []string{"../cmd/*/*.go", "../pkg/*/*.go"} {
		files, err := filepath.Glob(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				source.WriteString(read(t, file))
			}
		}
	}
	joint := regexp.MustCompile(`" ?\+\s*"`) // of a text on two lines
	text := joint.ReplaceAllString(source.String(), "")
	quotes := 0
	for _, table := range strings.Split(read(t, "troubleshooting.md"), "| the driver says |")[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		for _, quote := range all("(?m)^\\| `([^`]+)`", table) {
			quotes++
			for _, words := range strings.Split(quote, "…") {
				if !strings.Contains(text, words) {
					t.Errorf("the driver does not say %q (of %q)", words, quote)
				}
			}
		}
	}
	if quotes < 30 {
		t.Errorf("only %d quotes were found", quotes)
	}
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		for _, link := range all(`\]\(([^)\s]+)\)`, read(t, page)) {
			if strings.Contains(link, "://") {
				continue
			}
			file, heading, named := strings.Cut(link, "#")
			target := filepath.Join(filepath.Dir(page), file)
			if file == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link, err)
				continue
			}
			if named && !slices.ContainsFunc(all(`(?m)^#+ (.+)$`, read(t, target)), func(h string) bool { return anchor(h) == heading }) {
				t.Errorf("%s links to %s: no such heading", page, link)
			}
		}
	}
}
