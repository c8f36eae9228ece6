// Package process starts the sandbox's commands, keeps their output, and reaps all child processes of the guest.
package process

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"ramet.dev/native/guest/internal/awake"
)

const (
	// keptTime is how long the output and the result of an ended command are kept. envd keeps them for 30 s; a clone's
	// clients need more time after a restore.
	keptTime = 2 * time.Minute
	// keptProcesses limits the number of ended commands that are kept.
	keptProcesses = 16
)

// Table holds the commands that are running or ended recently.
type Table struct {
	outputBytes int

	// mu is held from before a fork until the child is in the table, and while children are reaped, so that a child that
	// ends immediately is found.
	mu        sync.Mutex
	processes []*Process
}

// NewTable returns a table that keeps the last outputBytes of each command's output.
func NewTable(outputBytes int) *Table {
	return &Table{outputBytes: outputBytes}
}

// Reap reaps children that exit, including adopted orphans, until ctx ends.
func (t *Table) Reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		t.reapAll()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Table) reapAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
		for _, p := range t.processes {
			if p.PID == pid && !p.reaped {
				p.reaped = true
				p.exit = exitOf(status)
				close(p.exited)
				break
			}
		}
	}
}

// List returns the running commands.
func (t *Table) List() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var running []*Process
	for _, p := range t.processes {
		if !p.reaped && !p.hidden {
			running = append(running, p)
		}
	}
	return running
}

// ByPID finds a command that is running or ended recently.
func (t *Table) ByPID(pid uint32) (*Process, bool) {
	return t.latest(func(p *Process) bool { return p.PID == int(pid) })
}

// ByTag finds the command that was started last with the tag.
func (t *Table) ByTag(tag string) (*Process, bool) {
	return t.latest(func(p *Process) bool { return p.Tag != nil && *p.Tag == tag })
}

func (t *Table) latest(matches func(*Process) bool) (*Process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range slices.Backward(t.processes) {
		if !p.hidden && matches(p) {
			return p, true
		}
	}
	return nil, false
}

// signal sends a signal to the command's process group unless the leader was reaped: its number can be reused then.
func (t *Table) signal(p *Process, s syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.PID, s)
}

// signalLeader sends a signal to the command's own process only.
func (t *Table) signalLeader(p *Process, s syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.PID, s)
}

// forget removes an ended command after keptTime, and the oldest ones earlier if there are more than keptProcesses.
func (t *Table) forget(p *Process) {
	if !p.hidden {
		stop := awake.AfterFunc(keptTime, func() { t.drop(p, true) })
		t.mu.Lock()
		p.stopKeeping = stop
		t.mu.Unlock()
	}
	t.drop(p, p.hidden)
}

func (t *Table) drop(p *Process, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.finished = true
	surplus := -keptProcesses
	for _, other := range t.processes {
		if other.finished {
			surplus++
		}
	}
	t.processes = slices.DeleteFunc(t.processes, func(other *Process) bool {
		isDropped := now && other == p || other.finished && surplus > 0
		if isDropped {
			surplus--
		}
		if isDropped && other.stopKeeping != nil {
			other.stopKeeping()
		}
		return isDropped
	})
}
