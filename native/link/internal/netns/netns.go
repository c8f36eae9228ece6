// Package netns makes network namespaces that no file names and that end with this process.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// A Namespace is held by a descriptor and by one thread that lives in it.
type Namespace struct {
	file  *os.File
	calls chan func()
}

// New makes an empty network namespace.
func New() (*Namespace, error) {
	ns := &Namespace{calls: make(chan func())}
	made := make(chan error)
	go ns.live(made)
	if err := <-made; err != nil {
		return nil, err
	}
	return ns, nil
}

// Path names the namespace for other processes, as long as this one lives.
func (ns *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd()) }

// Fd is the descriptor that holds the namespace.
func (ns *Namespace) Fd() int { return int(ns.file.Fd()) }

// Do runs f on the thread that lives in the namespace: sockets made by it belong there. It must not block for long.
func (ns *Namespace) Do(f func()) {
	done := make(chan struct{})
	ns.calls <- func() { defer close(done); f() }
	<-done
}

// Close ends the thread and lets go of the namespace.
func (ns *Namespace) Close() {
	close(ns.calls)
	_ = ns.file.Close()
}

func (ns *Namespace) live(made chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		made <- fault.Kernel("Making a network namespace", err)
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
