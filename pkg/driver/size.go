package driver

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// defaultSize is the size of a volume whose caller names none, in bytes.
const defaultSize = 1 << 30

// maxSize is more than LVM makes of an LV (16 PiB with its usual extents), and far from where sums of sizes overflow.
const maxSize = 1 << 60

// sizes is what a caller asks of a volume's size, in bytes.
type sizes struct {
	want  int64 // to ask LVM for, which rounds up to extents
	least int64 // that will do
	limit int64 // 0 is none
}

// parseSize reads the size of a volume to be made with a filesystem, or block.
func parseSize(r *csi.CapacityRange, fs string) (sizes, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if err := checkRange(required, limit); err != nil {
		return sizes{}, err
	}
	if required > maxSize {
		return sizes{}, as(errExhausted, fmt.Errorf("capacity_range.required_bytes %d is more than any volume group holds", required))
	}
	s := sizes{want: required, least: max(required, minimumSize[fs], 1), limit: limit}
	if limit != 0 && limit < s.least {
		return sizes{}, rangef("capacity_range.limit_bytes %d is less than the %d bytes that %s needs; ask for that much", limit, s.least, fs)
	}
	if required == 0 {
		s.want = defaultSize
		if limit != 0 {
			s.want = min(defaultSize, limit)
		}
	}
	s.want = max(s.want, s.least)
	return s, nil
}

// checkRange says what is wrong with a capacity_range whatever the volume, or returns nil.
func checkRange(required, limit int64) error {
	switch {
	case required < 0 || limit < 0:
		return invalidf("capacity_range is negative (required_bytes %d, limit_bytes %d)", required, limit)
	case limit != 0 && limit < required:
		return rangef("capacity_range.limit_bytes %d is less than required_bytes %d", limit, required)
	}
	return nil
}

// fit reports whether a volume of size bytes is as asked.
func (s sizes) fit(size int64) bool { return size >= s.least && (s.limit == 0 || size <= s.limit) }

// round is the size to ask for in whole extents of extentSize bytes: rounded up, or down where the limit wants it.
func (s sizes) round(extentSize int64) (int64, error) {
	up := (s.want + extentSize - 1) / extentSize * extentSize
	if s.limit == 0 || up <= s.limit {
		return up, nil
	}
	down := s.limit / extentSize * extentSize
	if down < s.least {
		return 0, rangef("no size fits: %d bytes are %d in whole extents of %d, more than capacity_range.limit_bytes %d; "+
			"ask for a multiple of the extent size", s.want, up, extentSize, s.limit)
	}
	return down, nil
}

func rangef(format string, args ...any) error { return as(errRange, fmt.Errorf(format, args...)) }
