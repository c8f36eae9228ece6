// Package confine takes rights from this process that it needs only to set up the network of a sandbox.
package confine

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// Process leaves every thread without an effective capability and without a way to gain one, and installs the seccomp
// filter. Only WithNetAdmin can make CAP_NET_ADMIN effective afterwards, on one thread.
func Process() error {
	const what = "Dropping the rights of link"
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		if errno == syscall.ENOTSUP {
			return fault.New("HostUnsupported", "Build it with CGO_ENABLED=0", "%s failed: the program was built with cgo", what)
		}
		return fault.Kernel(what, errno)
	}
	header, held, err := current()
	if err != nil {
		return fault.Kernel(what, err)
	}
	data := [2]unix.CapUserData{{Permitted: held[0].Permitted & netAdmin}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return fault.Kernel(what, errno)
	}
	if err := installFilter(); err != nil {
		return fault.Kernel("Installing link's seccomp filter", err)
	}
	return nil
}

const netAdmin uint32 = 1 << unix.CAP_NET_ADMIN

// WithNetAdmin runs f on a thread with CAP_NET_ADMIN. Other threads stay without it.
func WithNetAdmin(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header, held, err := current()
	if err != nil {
		return err
	}
	if held[0].Effective&netAdmin != 0 {
		return f()
	}
	raised := held
	raised[0].Effective |= netAdmin
	if err := unix.Capset(&header, &raised[0]); err != nil {
		return fault.Kernel("Using CAP_NET_ADMIN", err)
	}
	return errors.Join(f(), unix.Capset(&header, &held[0]))
}

func current() (header unix.CapUserHeader, data [2]unix.CapUserData, err error) {
	header.Version = unix.LINUX_CAPABILITY_VERSION_3
	err = unix.Capget(&header, &data[0])
	return header, data, err
}
