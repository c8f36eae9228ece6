// Package tree copies and removes directory trees of volumes. What is in them was written by sandboxes, which may write on:
// no path is followed, only descriptors are, so that an exchanged directory leads nowhere.
package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

const usage = `usage:
  ramet-link tree copy FROM TO    copies a directory to a new one, and waits until it is on the disk
  ramet-link tree remove PATH     removes a directory
`

// Main runs `ramet-link tree` and returns its exit code. It prints one line of JSON: what was copied, or the error. It ends with
// its standard input, and so with its parent.
func Main(args []string) int {
	var work func() (any, error)
	switch {
	case len(args) == 3 && args[0] == "copy":
		work = func() (any, error) { return copyTree(args[1], args[2], true) }
	case len(args) == 2 && args[0] == "remove":
		work = func() (any, error) { return struct{}{}, Remove(args[1]) }
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if os.Geteuid() != 0 {
		if code, ok := asRoot(args); ok {
			return code
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	result, err := work()
	if err != nil {
		PrintFailure(err)
		return 1
	}
	print(result)
	return 0
}

type failure struct {
	Message string `json:"message"`
	// Errno is the name of the kernel's error, such as ENOSPC.
	Errno string `json:"errno,omitempty"`
	// Damaged: the data is the cause, so it fails in the same way on every node.
	Damaged bool `json:"damaged,omitempty"`
}

// A Damage is an error whose cause is in the data, not in the node.
type Damage struct{ Err error }

func (d Damage) Error() string { return d.Err.Error() }
func (d Damage) Unwrap() error { return d.Err }

// PrintFailure prints an error as one line of JSON, with the kernel's error as a field.
func PrintFailure(err error) {
	print(failure{Message: err.Error(), Errno: errnoOf(err), Damaged: errors.As(err, new(Damage))})
}

func print(value any) { _ = json.NewEncoder(os.Stdout).Encode(value) }

func errnoOf(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	return unix.ErrnoName(errno)
}

// asRoot runs the same command as root of a user namespace that maps only this user. It may read and remove what the sandbox of
// this user has protected, as the root user of the sandbox may. It returns false if there are no user namespaces here.
func asRoot(args []string) (int, bool) {
	command := exec.Command("/proc/self/exe", append([]string{"tree"}, args...)...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := command.Start(); err != nil {
		return 0, false
	}
	_ = command.Wait()
	return command.ProcessState.ExitCode(), true
}

// failed names the operation and the entry of an error. Sandboxes choose the names, so they are quoted.
func failed(what, name string, err error) error {
	if len(name) > 200 {
		name = "…" + name[len(name)-200:]
	}
	return fmt.Errorf("%s %q failed: %w", what, name, err)
}

// openBelow opens an entry of a directory, and follows neither a link nor a mount.
func openBelow(directory int, name string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(directory, name, &how)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return fd, err
	}
}

// vanished tells whether an entry was removed, or replaced by another kind, since it was listed.
func vanished(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENXIO || err == unix.ESTALE
}
