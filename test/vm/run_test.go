package vm

import (
	"errors"
	"fmt"
	"testing"
)

func TestEndingCrashed(t *testing.T) {
	tests := []struct {
		name string
		end  ending
		err  error
		want bool
	}{
		{"panic while booting", ending{}, fmt.Errorf("%w: %w", ErrDied, errPanic), true},
		{"reset while booting", ending{}, fmt.Errorf("%w: %w", ErrDied, errReset), true},
		{"standstill while booting", ending{}, ErrHang, true},
		{"panic of the program's making", ending{started: true}, fmt.Errorf("%w: %w", ErrDied, errPanic), false},
		{"hang of the program's", ending{started: true}, ErrHang, false},
		{"bad argument for QEMU", ending{}, fmt.Errorf("%w: %w", ErrDied, errQEMU), false},
		{"time is up", ending{}, ErrTimeout, false},
		{"another error", ending{}, errors.New("no disk"), false},
		{"none", ending{}, nil, false},
	}
	for _, test := range tests {
		if got := test.end.crashed(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
