// Package netns creates network namespaces that are not bound to a file and end with this process.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// A Namespace is kept by a descriptor and by one thread in it.
type Namespace struct {
	file  *os.File
	calls chan func()
}

// New creates an empty network namespace.
func New() (*Namespace, error) {
	ns := &Namespace{calls: make(chan func())}
	made := make(chan error)
	go ns.live(made)
	if err := <-made; err != nil {
		return nil, err
	}
	return ns, nil
}

// Path returns the namespace's path for other processes. It is valid while this process runs.
func (ns *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd()) }

// Fd returns the descriptor of the namespace.
func (ns *Namespace) Fd() int { return int(ns.file.Fd()) }

// Do runs f on the namespace's thread, so that its sockets belong to the namespace. f must not block for long.
func (ns *Namespace) Do(f func()) {
	done := make(chan struct{})
	ns.calls <- func() { defer close(done); f() }
	<-done
}

// Close ends the thread and releases the namespace.
func (ns *Namespace) Close() {
	close(ns.calls)
	_ = ns.file.Close()
}

func (ns *Namespace) live(made chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		made <- fault.Kernel("Creating a network namespace", err)
		return
	}
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		made <- fault.Kernel("Opening the new network namespace", err)
		return
	}
	ns.file = file
	made <- nil
	for call := range ns.calls {
		call()
	}
}
