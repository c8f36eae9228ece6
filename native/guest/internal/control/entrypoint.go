package control

import (
	"errors"
	"io/fs"
	"sync"
	"syscall"

	"ramet.dev/native/guest/internal/process"
)

// Entrypoint is the command that the image declares, or none.
type Entrypoint struct {
	ended chan struct{}
	begin func() (*process.Process, error)
	once  sync.Once

	mu       sync.Mutex
	state    string
	process  *process.Process
	exitCode int
	message  string
}

// EntrypointStatus is what /health says of it.
type EntrypointStatus struct {
	// State is none, waiting for one that is still to be started, running, exited, or failed for one that could not be started.
	State    string `json:"state"`
	ExitCode *int   `json:"exitCode,omitempty"`
	Message  string `json:"message,omitempty"`
}

// NoEntrypoint is the one of a sandbox that only serves; it never ends.
func NoEntrypoint() *Entrypoint {
	return &Entrypoint{state: "none", ended: make(chan struct{})}
}

// NewEntrypoint is one that Start starts with begin.
func NewEntrypoint(begin func() (*process.Process, error)) *Entrypoint {
	return &Entrypoint{state: "waiting", begin: begin, ended: make(chan struct{})}
}

// Start starts the command, once, and follows it. A command that cannot be started has ended with 127, or 126 where it is
// there and may not be executed, as a shell has it.
func (e *Entrypoint) Start() {
	if e.begin == nil {
		return
	}
	e.once.Do(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		p, err := e.begin()
		if err != nil {
			e.state, e.message, e.exitCode = "failed", "starting the entrypoint: "+err.Error(), 126
			if errors.Is(err, fs.ErrNotExist) {
				e.exitCode = 127
			}
			close(e.ended)
			return
		}
		e.state, e.process = "running", p
		go e.follow(p)
	})
}

func (e *Entrypoint) follow(p *process.Process) {
	<-p.Ended()
	e.mu.Lock()
	e.state, e.exitCode = "exited", p.Exit().ShellCode()
	e.mu.Unlock()
	close(e.ended)
}

// Status says how the entrypoint is.
func (e *Entrypoint) Status() EntrypointStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	status := EntrypointStatus{State: e.state, Message: e.message}
	if e.state == "exited" || e.state == "failed" {
		code := e.exitCode
		status.ExitCode = &code
	}
	return status
}

// Ended is closed when the entrypoint has ended.
func (e *Entrypoint) Ended() <-chan struct{} { return e.ended }

// ExitCode is as a shell reports it; only after Ended.
func (e *Entrypoint) ExitCode() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exitCode
}

// Signal passes a signal on; false if there is nothing to pass it to.
func (e *Entrypoint) Signal(s syscall.Signal) bool {
	e.mu.Lock()
	p := e.process
	e.mu.Unlock()
	return p != nil && p.SignalLeader(s) == nil
}
