package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"

	"ramet.dev/native/guest/internal/control"
)

// forwarded lists the signals that the guest forwards to the entrypoint.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT,
}

// supervise forwards signals until the guest has to exit, and returns the guest's exit code.
func supervise(config config, entrypoint *control.Entrypoint, signals <-chan os.Signal, failed <-chan error) (int, error) {
	ended := entrypoint.Ended()
	stopping := false
	for {
		select {
		case err := <-failed:
			return 1, err
		case <-ended:
			if message := entrypoint.Status().Message; message != "" {
				_, _ = os.Stderr.WriteString("ramet-guest: " + message + "\n")
			}
			if config.ExitWithEntrypoint || stopping {
				return entrypoint.ExitCode(), nil
			}
			ended = nil
		case received := <-signals:
			number, ok := received.(syscall.Signal)
			if !ok {
				continue
			}
			stop := number == syscall.SIGTERM || number == syscall.SIGINT
			if !entrypoint.Signal(number) && stop && (ended == nil || notStarted(entrypoint)) {
				return 128 + int(number), nil
			}
			stopping = stopping || stop
		}
	}
}

func notStarted(entrypoint *control.Entrypoint) bool {
	state := entrypoint.Status().State
	return state == "none" || state == "waiting"
}

// adoptOrphans makes the guest the parent of orphaned processes even if it is not PID 1.
func adoptOrphans() {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
}

// limitCommands leaves the entrypoint and all commands the default capabilities of a container, also those of root. The
// guest keeps CAP_SYS_ADMIN, to set the host name: the bounding set only applies to programs that are executed.
func limitCommands() error {
	const (
		dropFromBoundingSet = 24 // PR_CAPBSET_DROP of <linux/prctl.h>
		sysPtrace           = 19 // CAP_SYS_PTRACE of <linux/capability.h>
		sysAdmin            = 21 // CAP_SYS_ADMIN
	)
	// What another user executes has no capabilities.
	if os.Geteuid() != 0 {
		return nil
	}
	for _, capability := range []uintptr{sysPtrace, sysAdmin} {
		_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, dropFromBoundingSet, capability, 0)
		if errno != 0 {
			return fmt.Errorf("dropping capability %d from the bounding set: %w", capability, errno)
		}
	}
	return nil
}

// connections holds the connections of clients. They are reset after a restore: their other ends belong to the source.
type connections struct {
	mu  sync.Mutex
	all map[net.Conn]struct{}
}

func newConnections() *connections { return &connections{all: map[net.Conn]struct{}{}} }

func (c *connections) track(connection net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.all[connection] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(c.all, connection)
	}
}

func (c *connections) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for connection := range c.all {
		// No linger: no peer can receive the unsent data.
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = connection.Close()
	}
}
