package driver

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func TestSizes(t *testing.T) {
	for name, tc := range map[string]struct {
		fs              string
		required, limit int64
		want            int64
	}{
		"whole extents":                  {block, 64 * mib, 0, 64 * mib},
		"rounded up":                     {block, 64*mib + 1, 0, 68 * mib}, // topolvm 1039: the real size is answered
		"one byte":                       {block, 1, 0, 4 * mib},
		"no size":                        {block, 0, 0, gib},
		"no size and a high limit":       {block, 0, 2 * gib, gib},
		"no size and a low limit":        {block, 0, 64 * mib, 64 * mib},
		"no size and a limit in between": {block, 0, 66 * mib, 64 * mib}, // rounded down, as the caller lets us
		"limit of whole extents":         {block, 61 * mib, 64 * mib, 64 * mib},
		"limit in between":               {block, 62 * mib, 66 * mib, 64 * mib},
		"limit and size are one":         {block, 64 * mib, 64 * mib, 64 * mib},
		"ext4's least":                   {"ext4", 1, 0, 4 * mib},
		"xfs's least":                    {"xfs", 64 * mib, 0, 300 * mib},
		"xfs's least below the limit":    {"xfs", 64 * mib, 400 * mib, 300 * mib},
		"xfs's least is the limit":       {"xfs", 0, 300 * mib, 300 * mib},
		"btrfs's least":                  {"btrfs", 64 * mib, 0, 128 * mib},
		"the default filesystem's":       {"", 1, 0, 4 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			req := createRequest("pvc-1", tc.fs, 0)
			req.CapacityRange = &csi.CapacityRange{RequiredBytes: tc.required, LimitBytes: tc.limit}
			for range 2 {
				v := must(t, w.d, (*Driver).CreateVolume, req).GetVolume()
				if v.GetCapacityBytes() != tc.want || w.find(v.GetVolumeId()).Size != tc.want {
					t.Errorf("got %d bytes and an LV of %d, want %d", v.GetCapacityBytes(), w.find(v.GetVolumeId()).Size, tc.want)
				}
			}
		})
	}
}

// A name that is taken is the same volume if its size is within what is asked, and another if not.
func TestSizesOfAnExistingVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		required, limit int64
		code            codes.Code
	}{
		"the same":               {63 * mib, 0, codes.OK},
		"as it was rounded":      {64 * mib, 0, codes.OK},
		"less, which it fulfils": {32 * mib, 0, codes.OK},
		"no size":                {0, 0, codes.OK},
		"no size and a limit":    {0, 64 * mib, codes.OK},
		"within":                 {60 * mib, 70 * mib, codes.OK},
		"no extent count but it": {64 * mib, 64 * mib, codes.OK},
		"more":                   {65 * mib, 0, codes.AlreadyExists},
		"a lower limit":          {32 * mib, 60 * mib, codes.AlreadyExists},
		"only a lower limit":     {0, 60 * mib, codes.AlreadyExists},
		"more than the VG has":   {5 * gib, 0, codes.AlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(t, "pvc-1", "ext4", 63*mib)
			before := w.state(t)
			req := createRequest("pvc-1", "ext4", 0)
			req.CapacityRange = &csi.CapacityRange{RequiredBytes: tc.required, LimitBytes: tc.limit}
			v, err := rpc(t.Context(), w.d, (*Driver).CreateVolume, req)
			wantCode(t, err, tc.code)
			if err == nil && v.GetVolume().GetCapacityBytes() != 64*mib {
				t.Errorf("its size is answered as %d", v.GetVolume().GetCapacityBytes())
			}
			unchanged(t, w, before)
		})
	}
}
