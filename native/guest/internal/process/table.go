// Package process starts the sandbox's commands, keeps what they print, and reaps everything that ends under PID 1.
package process

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// keptTime is how long the output and the end of a command that has ended can still be fetched. envd promises 30 s;
	// a clone should have a while to ask after its restore.
	keptTime = 2 * time.Minute
	// keptProcesses bounds what is kept of commands that have ended.
	keptProcesses = 16
)

// Table holds the commands that run and those that ended a short while ago.
type Table struct {
	outputBytes int

	// mu is held from before a fork until the child is in the map, and while children are reaped: a child that ends at
	// once is still found.
	mu        sync.Mutex
	processes []*Process
}

// NewTable makes a table; outputBytes is how much of each command's output is kept.
func NewTable(outputBytes int) *Table {
	return &Table{outputBytes: outputBytes}
}

// Reap collects every child that ends, orphans that were handed to PID 1 included, until ctx ends.
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

// List returns the commands that still run.
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

// ByPID finds a command, also one that ended a short while ago.
func (t *Table) ByPID(pid uint32) (*Process, bool) {
	return t.latest(func(p *Process) bool { return p.PID == int(pid) })
}

// ByTag finds the command that was last started with the tag.
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

// signal reaches the command's whole group, and only while its leader is not reaped: later the number may be another's.
func (t *Table) signal(p *Process, s syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(-p.PID, s)
}

// signalLeader reaches only the process itself.
func (t *Table) signalLeader(p *Process, s syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	return syscall.Kill(p.PID, s)
}

// forget drops a command after keptTime, and the oldest ones early when there are many.
func (t *Table) forget(p *Process) {
	t.drop(p, p.hidden)
	if !p.hidden {
		time.AfterFunc(keptTime, func() { t.drop(p, true) })
	}
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
		if now && other == p {
			surplus--
			return true
		}
		if other.finished && surplus > 0 {
			surplus--
			return true
		}
		return false
	})
}
