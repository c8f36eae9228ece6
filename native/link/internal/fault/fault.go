// Package fault defines the errors that link reports to its parent, in the form of RametError (src/base/errors.ts).
package fault

import (
	"errors"
	"fmt"
	"syscall"
)

// A Fault has a stable code of src/base/error-codes.ts, a message that starts with what failed, and a hint.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (f *Fault) Error() string { return f.Message }

// New returns a fault. The hint may be empty.
func New(code, hint, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// From converts any error into a fault. It returns a fault unchanged.
func From(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Code: "Internal", Message: err.Error()}
}

// Kernel returns the fault for a rejected system call.
func Kernel(what string, err error) *Fault {
	f := New("HostUnsupported", "", "%s failed: %v", what, err)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		f.Hint = "Run it as root with CAP_SYS_ADMIN and CAP_NET_ADMIN, or inside `ramet-link pod`; seccomp and AppArmor must allow it"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		f.Hint = "Raise the sysctl user.max_net_namespaces (or user.max_user_namespaces)"
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, syscall.EINVAL):
		f.Hint = "The kernel needs the modules veth, nf_tables, nft_redir and nft_nat: load them with modprobe"
	}
	return f
}
