package driver

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// tagFormat is the version of the tags that this release writes. A later release reads
// this one's; this one leaves alone what a later one made.
const tagFormat = "1"

// state is how far a volume is from what its caller asked for.
type state string

const (
	ready    state = ""         // no tag: removing the tag is the commit point
	creating state = "creating" // never handed out: a retry finishes it or removes it
	deleting state = "deleting" // being erased: never to be mounted again
)

// block is the fs of a raw block volume.
const block = "block"

// record is all that the driver remembers of a volume. It lives in the LV's tags, each
// "<driver name>/<key>=<value>".
type record struct {
	id    string        // key "id": the volume ID
	name  string        // key "name": the CSI name, encoded
	fs    string        // key "fs": "ext4", "xfs", "btrfs" or "block"
	erase mounter.Erase // key "erase": what DeleteVolume does to the blocks; absent is zero
	state state         // key "state"; absent is ready
}

// tagger writes and reads the tags of one driver name.
type tagger struct{ driver string }

func (t tagger) tag(key, value string) string { return t.driver + "/" + key + "=" + value }

func (t tagger) state(s state) string { return t.tag("state", string(s)) }

func (t tagger) id(id string) string { return t.tag("id", id) }

// write is the tags of a record, all for the one lvcreate.
func (t tagger) write(r record) []string {
	tags := []string{t.tag("v", tagFormat), t.id(r.id), t.tag("name", encode(r.name)), t.tag("fs", r.fs)}
	if r.erase != mounter.EraseZero {
		tags = append(tags, t.tag("erase", string(r.erase)))
	}
	if r.state != ready {
		tags = append(tags, t.state(r.state))
	}
	return tags
}

// read is the record of an LV. ok is false for an LV that is not a volume of this driver: it has no tag of ours, or
// one of a format we do not know, or it only inherited tags (LVM gives those of a RAID LV to
// its parts, and a killed lvcreate leaves them visible).
func (t tagger) read(lv *lvm.LV) (r record, ok bool) {
	values := map[string]string{}
	for _, tag := range lv.Tags {
		if rest, ours := strings.CutPrefix(tag, t.driver+"/"); ours {
			key, value, _ := strings.Cut(rest, "=")
			values[key] = value
		}
	}
	name, err := decode(values["name"])
	if values["v"] != tagFormat || err != nil || lvName(name) != lv.Name {
		return record{}, false
	}
	r = record{id: values["id"], name: name, fs: values["fs"], erase: mounter.Erase(values["erase"]), state: state(values["state"])}
	if r.erase == "" {
		r.erase = mounter.EraseZero
	}
	return r, true
}

// encode writes a CSI name (any UTF-8) in the alphabet of tags: a byte that is no letter, digit or one of "_.-" is
// "=" and two hex digits, so that no two names are written alike.
func encode(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

// decode undoes encode, and takes only what encode writes.
func decode(tag string) (string, error) {
	var b strings.Builder
	for rest := tag; rest != ""; {
		plain, escape, found := strings.Cut(rest, "=")
		b.WriteString(plain)
		if !found {
			break
		}
		c, err := hex.DecodeString(escape[:min(2, len(escape))])
		if err != nil {
			return "", fmt.Errorf("name tag %q: %w", tag, err)
		}
		b.Write(c)
		rest = escape[min(2, len(escape)):]
	}
	if name := b.String(); encode(name) == tag {
		return name, nil
	}
	return "", fmt.Errorf("name tag %q is not as this driver writes it", tag)
}
