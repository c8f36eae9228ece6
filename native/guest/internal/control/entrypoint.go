package control

import (
	"errors"
	"io/fs"
	"sync"
	"syscall"

	"ramet.dev/native/guest/internal/process"
)

// Entrypoint is the container's entrypoint, or none.
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

// EntrypointStatus is its state in /health.
type EntrypointStatus struct {
	// State is none, waiting (not started yet), running, exited, or failed (could not be started).
	State    string `json:"state"`
	ExitCode *int   `json:"exitCode,omitempty"`
	Message  string `json:"message,omitempty"`
}

// NoEntrypoint is for a sandbox that only serves clients. It never ends.
func NoEntrypoint() *Entrypoint {
	return &Entrypoint{state: "none", ended: make(chan struct{})}
}

// NewEntrypoint returns an entrypoint that Start starts by calling begin.
func NewEntrypoint(begin func() (*process.Process, error)) *Entrypoint {
	return &Entrypoint{state: "waiting", begin: begin, ended: make(chan struct{})}
}

// Start starts the command once and follows it in the background. As in a shell, the exit code is 127 if the command does
// not exist, and 126 if it cannot be executed.
func (e *Entrypoint) Start() {
	if e.begin == nil {
		return
	}
	e.once.Do(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		p, err := e.begin()
		if err != nil {
			e.state, e.message, e.exitCode = "failed", "starting the entrypoint failed: "+err.Error(), 126
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

// Status returns the state of the entrypoint.
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

// Ended is closed when the entrypoint has exited.
func (e *Entrypoint) Ended() <-chan struct{} { return e.ended }

// ExitCode returns the exit code as a shell reports it. It is valid only after Ended.
func (e *Entrypoint) ExitCode() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exitCode
}

// Signal forwards a signal. It returns false if the entrypoint is not running.
func (e *Entrypoint) Signal(s syscall.Signal) bool {
	e.mu.Lock()
	p := e.process
	e.mu.Unlock()
	return p != nil && p.SignalLeader(s) == nil
}
