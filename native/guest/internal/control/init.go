package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Wish is the body of /init: who the sandbox is from now on.
type Wish struct {
	SandboxID               string            `json:"sandboxId"`
	Hostname                string            `json:"hostname"`
	AccessToken             string            `json:"accessToken"`
	Environment             map[string]string `json:"environment"`
	Generation              int64             `json:"generation"`
	Clone                   bool              `json:"clone"`
	Now                     string            `json:"now"`
	HookTimeoutMilliseconds int64             `json:"hookTimeoutMilliseconds"`
}

// Outcome is the answer of /init.
type Outcome struct {
	Hooks []HookRun `json:"hooks"`
	// Warnings say what could not be done and does not keep the sandbox from working.
	Warnings []string `json:"warnings"`
}

// conflictError says that the wish contradicts one that was granted before.
type conflictError struct{ text string }

func (e *conflictError) Error() string { return e.text }

// handOver remembers the last wish and its outcome, so that a repeat gets the same answer and runs nothing twice.
type handOver struct {
	mu         sync.Mutex
	generation int64
	sandboxID  string
	outcome    *Outcome
}

const (
	defaultHookTimeout = 10 * time.Second
	// maxClockError is more than what a slow start makes of the time between the cell's writing and the guest's reading.
	maxClockError = 5 * time.Second
)

func (w Wish) check() error {
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
	}
	for _, char := range w.Hostname {
		if char <= ' ' || char > '~' {
			return errors.New("hostname has a character that host names do not have")
		}
	}
	return nil
}

// take gives the sandbox its identity: first everything by which it is known, then the hooks, which see it.
func (s *Server) take(ctx context.Context, wish Wish) (*Outcome, error) {
	s.handOver.mu.Lock()
	defer s.handOver.mu.Unlock()
	last := &s.handOver
	switch {
	case wish.Generation == last.generation && wish.SandboxID == last.sandboxID:
		return last.outcome, nil
	case wish.Generation <= last.generation:
		return nil, &conflictError{fmt.Sprintf("generation %d of %s was taken before; a new one must be higher", last.generation, last.sandboxID)}
	}
	if wish.Clone && s.DropClients != nil {
		s.DropClients()
	}
	outcome := &Outcome{Hooks: []HookRun{}, Warnings: []string{}}
	warn := func(doing string, err error) {
		if err != nil {
			outcome.Warnings = append(outcome.Warnings, doing+": "+err.Error())
		}
	}
	warn("comparing the clock", checkClock(wish.Now))
	warn("setting the host name", setHostname(wish.Hostname))
	s.Identity.Take(wish.AccessToken, wish.Environment, wish.Generation)
	warn("writing the identity", s.publish(wish))
	if wish.Clone {
		timeout := time.Duration(wish.HookTimeoutMilliseconds) * time.Millisecond
		if timeout == 0 {
			timeout = defaultHookTimeout
		}
		outcome.Hooks = s.runHooks(ctx, wish, timeout)
	}
	last.generation, last.sandboxID, last.outcome = wish.Generation, wish.SandboxID, outcome
	return outcome, nil
}

// publish writes what programs in the sandbox may know of its identity; token and environment stay out.
func (s *Server) publish(wish Wish) error {
	if err := os.MkdirAll(s.StateDir, 0o755); err != nil {
		return err
	}
	identity, err := json.Marshal(map[string]any{
		"sandboxId": wish.SandboxID, "hostname": wish.Hostname, "generation": wish.Generation, "clone": wish.Clone,
	})
	if err != nil {
		return err
	}
	if err := rewrite(filepath.Join(s.StateDir, "identity.json"), append(identity, '\n')); err != nil {
		return err
	}
	// Last, because it is what programs wait for.
	return rewrite(filepath.Join(s.StateDir, "generation"), []byte(strconv.FormatInt(wish.Generation, 10)+"\n"))
}

// rewrite changes a file in place, because inotify follows the file and not its name; the new text is there before the
// rest of a longer old one is cut off, so that nobody reads an empty file.
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

// checkClock only compares. A gVisor sandbox follows its host's clock and may not set it; a guest that set a clock where
// it may would, outside a sandbox, set its host's.
func checkClock(now string) error {
	if now == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, now)
	if err != nil {
		return err
	}
	if off := time.Since(at); off < -maxClockError || off > maxClockError {
		return fmt.Errorf("it is %s off the cell's, and is the host's, which a sandbox cannot set", off.Round(time.Millisecond))
	}
	return nil
}
