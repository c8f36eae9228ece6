package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
)

// InitRequest is the body of /init: the new identity of the sandbox.
type InitRequest struct {
	SandboxID               string            `json:"sandboxId"`
	Hostname                string            `json:"hostname"`
	AccessToken             string            `json:"accessToken"`
	Environment             map[string]string `json:"environment"`
	Generation              int64             `json:"generation"`
	Clone                   bool              `json:"clone"`
	Now                     string            `json:"now"`
	HookTimeoutMilliseconds int64             `json:"hookTimeoutMilliseconds"`
	// Limits are the limits of the sandbox, which it cannot see itself. A field that is missing or 0 means no limit.
	Limits struct {
		MemoryBytes int64 `json:"memoryBytes"`
		CPUMillis   int64 `json:"cpuMillis"`
	} `json:"limits"`
}

// Outcome is the response of /init.
type Outcome struct {
	Hooks []HookRun `json:"hooks"`
	// Warnings lists failed steps that the sandbox can run without.
	Warnings []string `json:"warnings"`
}

// conflictError reports a request that contradicts an earlier one.
type conflictError struct{ text string }

func (e *conflictError) Error() string { return e.text }

// handover records the last request and its outcome, so that a repeated request gets the same response and runs nothing.
type handover struct {
	mu         sync.Mutex
	generation int64
	sandboxID  string
	outcome    *Outcome
}

const (
	defaultHookTimeout = 10 * time.Second
	// maxClockError is longer than a slow start takes between the cell's request and the guest's check.
	maxClockError = 5 * time.Second
)

func (w InitRequest) check() error {
	switch {
	case w.SandboxID == "":
		return errors.New("sandboxId is empty")
	case w.AccessToken == "":
		return errors.New("accessToken is empty")
	case len(w.Hostname) == 0 || len(w.Hostname) > 64:
		return errors.New("hostname must have 1 to 64 characters")
	case w.Generation < 1:
		return errors.New("generation must be 1 or more")
	case w.HookTimeoutMilliseconds < 0:
		return errors.New("hookTimeoutMilliseconds must not be negative")
	case w.HookTimeoutMilliseconds > math.MaxInt64/int64(time.Millisecond):
		return errors.New("hookTimeoutMilliseconds is too large")
	case w.Limits.MemoryBytes < 0 || w.Limits.CPUMillis < 0:
		return errors.New("limits must not be negative")
	}
	for _, char := range w.Hostname {
		if char <= ' ' || char > '~' {
			return errors.New("hostname has an invalid character")
		}
	}
	// Nothing could be started in the sandbox.
	return process.CheckVariables(w.Environment)
}

func (w InitRequest) hookTimeout() time.Duration {
	timeout := time.Duration(w.HookTimeoutMilliseconds) * time.Millisecond
	if timeout == 0 {
		timeout = defaultHookTimeout
	}
	return timeout
}

func (w InitRequest) identity() identity.Identity {
	return identity.Identity{
		Token: w.AccessToken, Environment: w.Environment, Generation: w.Generation,
		Limits: identity.Limits{MemoryBytes: w.Limits.MemoryBytes, CPUMillis: w.Limits.CPUMillis},
	}
}

// take gives the sandbox its identity, and then runs the hooks, which see the identity.
func (s *Server) take(ctx context.Context, request InitRequest) (*Outcome, error) {
	s.handover.mu.Lock()
	defer s.handover.mu.Unlock()
	last := &s.handover
	switch {
	case request.Generation == last.generation && request.SandboxID == last.sandboxID:
		return last.outcome, nil
	case request.Generation <= last.generation:
		return nil, &conflictError{fmt.Sprintf("the sandbox already has generation %d of %s; a new generation must be higher", last.generation, last.sandboxID)}
	}
	if request.Clone && s.DropClients != nil {
		s.DropClients()
	}
	outcome := &Outcome{Hooks: []HookRun{}, Warnings: []string{}}
	warn := func(doing string, err error) {
		if err != nil {
			outcome.Warnings = append(outcome.Warnings, doing+": "+err.Error())
		}
	}
	if request.Clone && s.Ports != nil {
		warn("changing the local ports", s.Ports.Next())
	}
	if request.Clone && s.Root != "" {
		warn("hiding the file of the writable layer", hideLayer(s.Root))
	}
	warn("comparing the clock", checkClock(request.Now))
	warn("setting the host name", setHostname(request.Hostname))
	s.Identity.Take(request.identity())
	warn("writing the identity", s.publish(request))
	warn("writing the variables of E2B", writeMarks(s.MarkDir, request.Environment))
	if request.Clone {
		outcome.Hooks = s.runHooks(ctx, request, request.hookTimeout())
	}
	last.generation, last.sandboxID, last.outcome = request.Generation, request.SandboxID, outcome
	return outcome, nil
}

// publish writes the identity for programs in the sandbox, without token and environment.
func (s *Server) publish(request InitRequest) error {
	if err := os.MkdirAll(s.StateDir, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"sandboxId": request.SandboxID, "hostname": request.Hostname, "generation": request.Generation, "clone": request.Clone,
	})
	if err != nil {
		return err
	}
	if err := rewrite(filepath.Join(s.StateDir, "identity.json"), append(text, '\n')); err != nil {
		return err
	}
	// Written last, because programs wait for it.
	return rewrite(filepath.Join(s.StateDir, "generation"), []byte(strconv.FormatInt(request.Generation, 10)+"\n"))
}

// rewrite changes a file in place, because inotify follows the file and not its name. It writes the new text before it
// truncates the old one, so that no reader sees an empty file.
func rewrite(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteAt(text, 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(text)))
}

// checkClock only compares the clocks. A gVisor sandbox uses its host's clock and cannot set it. Outside a sandbox, setting
// the clock would change the host's.
func checkClock(now string) error {
	if now == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, now)
	if err != nil {
		return err
	}
	if off := time.Since(at); off < -maxClockError || off > maxClockError {
		return fmt.Errorf("it differs by %s from the cell's clock; it is the host's clock, which a sandbox cannot set", off.Round(time.Millisecond))
	}
	return nil
}
