package mounter

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maker is how a filesystem is made.
type maker struct {
	words  []string       // mkfs and its options: do not ask, do not talk
	dryRun string         // the option that makes mkfs do everything except write
	usage  *regexp.Regexp // where there is none: how mkfs speaks of its words
	shed   []shed
}

// shed is a feature that newer tools turn on by themselves and that older kernels, or older fscks, refuse: with
// --tools=image the two can be years apart. A tool that does not know the feature refuses its name, so each is
// turned off from a version on in which that was tried.
type shed struct {
	since version
	words []string
	key   string // options of the caller that contain it decide instead
}

// makers hold what is common to them: none discards the device first. The extents were erased when their last
// volume was deleted, on a large disk the discard takes minutes in which CreateVolume waits, and LVM
// (issue_discards=0) does not either.
//
// The kernels to be served are 5.10 and later: it mounts what these words make with the tools of Debian 13, and refuses
// what mkfs.xfs 6.13 makes without them.
var makers = map[string]maker{
	"ext4": {
		// -F once: the device is no partition. Twice would override that it is mounted.
		// -m 0: nobody in a pod is root on the node, so no blocks are kept for root.
		words:  []string{"mkfs.ext4", "-F", "-q", "-m", "0", "-E", "nodiscard"},
		dryRun: "-n",
		shed: []shed{
			// e2fsck before 1.47 does not go near an orphan file; Linux before 5.15 does not use it.
			{version{1, 47}, []string{"-O", "^orphan_file"}, "orphan_file"},
		},
	},
	"xfs": {
		words:  []string{"mkfs.xfs", "-f", "-q", "-K"},
		dryRun: "-N",
		shed: []shed{
			// mkfs.xfs refuses an option that is given twice, and one that its configuration file (-c) has as well.
			{version{6, 1}, []string{"-i", "nrext64=0"}, "nrext64"},    // Linux 5.19
			{version{6, 13}, []string{"-i", "exchange=0"}, "exchange"}, // Linux 6.10
			{version{6, 13}, []string{"-n", "parent=0"}, "parent"},     // Linux 6.10
			{version{6, 13}, []string{"-m", "metadir=0"}, "metadir"},   // Linux 6.13
		},
	},
	"btrfs": {
		words: []string{"mkfs.btrfs", "-f", "-q", "-K"},
		usage: btrfsUsage,
		shed: []shed{
			{version{6, 14}, []string{"-O", "^block-group-tree"}, "block-group-tree"}, // Linux 6.1
		},
	},
}

var btrfsUsage = regexp.MustCompile(`(?im)^(ERROR: )?(mkfs\.btrfs: )?(unrecognized|unknown|invalid|illegal|ambiguous|usage:|option)|requires an argument`)

// mkfs builds the command line, without the device.
func (l *Linux) mkfs(ctx context.Context, m maker, options []string) ([]string, error) {
	v, err := l.versions.of(m.words[0], func() (version, error) {
		stdout, stderr, err := l.tool(ctx, m.words[0], "-V")
		if err != nil {
			return version{}, err
		}
		return parseVersion(stdout + stderr)
	})
	if err != nil {
		return nil, fmt.Errorf("version of %s: %w", m.words[0], err)
	}
	return m.commandLine(v, options), nil
}

// versions remembers for a while what tools said of their versions.
type versions struct {
	mu    sync.Mutex
	known map[string]knownVersion
}

type knownVersion struct {
	version
	since time.Time
}

// versionKept is short because the host's tools may be upgraded under a running driver, and long enough that a burst of
// volumes asks once.
const versionKept = 5 * time.Minute

func (vs *versions) of(tool string, ask func() (version, error)) (version, error) {
	vs.mu.Lock()
	k, ok := vs.known[tool]
	vs.mu.Unlock()
	if ok && time.Since(k.since) < versionKept {
		return k.version, nil
	}
	v, err := ask()
	if err != nil {
		return version{}, err
	}
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.known == nil {
		vs.known = map[string]knownVersion{}
	}
	vs.known[tool] = knownVersion{v, time.Now()}
	return v, nil
}

// forget makes the next mkfs ask again.
func (vs *versions) forget(tool string) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.known, tool)
}

func (m maker) commandLine(v version, options []string) []string {
	words := slices.Clone(m.words)
	for _, s := range m.shed {
		decided := slices.ContainsFunc(options, func(o string) bool {
			return strings.Contains(o, s.key) || m.words[0] == "mkfs.xfs" && strings.HasPrefix(o, "-c")
		})
		if !v.less(s.since) && !decided {
			words = append(words, s.words...)
		}
	}
	return append(words, options...)
}

type version [2]int

func (v version) less(w version) bool { return slices.Compare(v[:], w[:]) < 0 }

var versionNumber = regexp.MustCompile(`\b[a-z]*(\d+)\.(\d+)`)

// parseVersion finds the first two numbers in what a tool says of its version.
func parseVersion(out string) (version, error) {
	found := versionNumber.FindStringSubmatch(out)
	if found == nil {
		return version{}, fmt.Errorf("no version in %q", out)
	}
	major, err := strconv.Atoi(found[1])
	if err != nil {
		return version{}, err
	}
	minor, err := strconv.Atoi(found[2])
	return version{major, minor}, err
}
