package driver

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-csi/lvm-csi/pkg/lvm"
	"github.com/lvm-csi/lvm-csi/pkg/mounter"
)

// What a call can be told, beside the errors of lvm and mounter. Each is a gRPC code (statusOf).
var (
	errInvalid      = errors.New("invalid argument")
	errNotFound     = errors.New("volume not found")
	errRange        = errors.New("size out of range")
	errExhausted    = errors.New("no room on this node")
	errExists       = errors.New("already exists with other properties")
	errPrecondition = errors.New("precondition failed")
	errBusy         = errors.New("busy")
	errUnavailable  = errors.New("unavailable for now")
	errBadToken     = errors.New("invalid starting token")
)

// coded gives an error a code while its text stays as it is: a caller that reads "no room on this node: ..." twice learns nothing.
type coded struct {
	kind error
	err  error
}

func (c coded) Error() string   { return c.err.Error() }
func (c coded) Unwrap() []error { return []error{c.kind, c.err} }

// as makes kind decide the code of err, whatever else err is.
func as(kind, err error) error { return coded{kind, err} }

func invalidf(format string, args ...any) error { return as(errInvalid, fmt.Errorf(format, args...)) }
func preconditionf(format string, args ...any) error {
	return as(errPrecondition, fmt.Errorf(format, args...))
}
func notFoundf(format string, args ...any) error { return as(errNotFound, fmt.Errorf(format, args...)) }

// required is the error of an empty field.
func required(field string) error { return invalidf("%s is missing in the request", field) }

// codeOf maps errors to codes, the first that matches. A kind given by as, the outermost, comes before all of them.
// external-provisioner takes Canceled, DeadlineExceeded, Unavailable and Aborted to mean that the volume may yet
// come, and any other code that nothing is left of it.
var codeOf = []struct {
	kind error
	code codes.Code
}{
	{errInvalid, codes.InvalidArgument},
	{errNotFound, codes.NotFound},
	{errRange, codes.OutOfRange},
	{errExhausted, codes.ResourceExhausted},
	{errExists, codes.AlreadyExists},
	{errPrecondition, codes.FailedPrecondition},
	{errBusy, codes.Aborted},
	{errBadToken, codes.Aborted},
	{errUnavailable, codes.Unavailable},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
	{lvm.ErrUnknown, codes.Unavailable},
	{lvm.ErrUnavailable, codes.Unavailable},
	{lvm.ErrNoVG, codes.Unavailable},
	{lvm.ErrNotFound, codes.NotFound},
	{lvm.ErrInUse, codes.FailedPrecondition},
	{mounter.ErrInUse, codes.FailedPrecondition},
	{mounter.ErrSuspended, codes.Unavailable},
	{mounter.ErrInactive, codes.Unavailable},
}

// statusOf is the one place where errors become gRPC statuses.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	kind := err
	if c := (coded{}); errors.As(err, &c) {
		kind = c.kind
	}
	for _, c := range codeOf {
		if errors.Is(kind, c.kind) {
			return status.Error(c.code, err.Error())
		}
	}
	if s, ok := status.FromError(err); ok { // Unimplemented, from the generated code
		return s.Err()
	}
	return status.Error(codes.Internal, err.Error())
}
