package control

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/users"
)

// hookOutputBytes is how much of the end of a hook's output is reported.
const hookOutputBytes = 4 << 10

// lateOutputTime is how long the sandbox waits for the output of processes that outlive a hook. It is short, because clients wait for
// the hooks.
const lateOutputTime = time.Second

// HookRun is the result of one hook.
type HookRun struct {
	Path         string `json:"path"`
	Milliseconds int64  `json:"milliseconds"`
	// ExitCode is 127 if the hook could not be started, and 128 plus the signal's number if a signal ended it.
	ExitCode int    `json:"exitCode"`
	TimedOut bool   `json:"timedOut,omitempty"`
	Output   string `json:"output"`
	// OutputOpen is true if a process that outlives the hook keeps its output open.
	OutputOpen bool `json:"outputOpen,omitempty"`
}

// runHooks runs the programs of the hook directory sequentially, in lexical order.
func (s *Server) runHooks(ctx context.Context, request InitRequest, timeout time.Duration) []HookRun {
	runs := []HookRun{}
	for _, path := range s.hooks() {
		started := time.Now()
		run := s.runHook(ctx, path, request, timeout)
		run.Milliseconds = time.Since(started).Milliseconds()
		runs = append(runs, run)
	}
	return runs
}

// hooks returns the paths of the programs in the hook directory, in lexical order.
func (s *Server) hooks() []string {
	entries, _ := os.ReadDir(s.HookDir)
	var paths []string
	for _, entry := range entries {
		path := filepath.Join(s.HookDir, entry.Name())
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

func (s *Server) runHook(ctx context.Context, path string, request InitRequest, timeout time.Duration) HookRun {
	self := users.OfIDs(uint32(os.Getuid()), uint32(os.Getgid()))
	p, err := s.Processes.Start(process.Spec{
		Command: path,
		Dir:     "/",
		User:    self,
		Hidden:  true,
		Env: s.Identity.CommandEnvironment(self, map[string]string{
			"RAMET_SANDBOX_ID": request.SandboxID,
			"RAMET_GENERATION": strconv.FormatInt(request.Generation, 10),
			"RAMET_CLONE":      "1",
		}),
	})
	if err != nil {
		return HookRun{Path: path, ExitCode: 127, Output: err.Error()}
	}
	run := HookRun{Path: path}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.Exited():
	case <-timer.C:
		run.TimedOut = true
		_ = p.Kill()
		<-p.Exited()
	}
	run.ExitCode = p.Exit().ShellCode()
	ctx, cancel := context.WithTimeout(ctx, lateOutputTime)
	defer cancel()
	run.Output, run.OutputOpen = lastOutput(ctx, p)
	return run
}

// lastOutput returns the end of the output, and whether the output was still open when ctx ended.
func lastOutput(ctx context.Context, p *process.Process) (string, bool) {
	reader := p.Output.Follow()
	defer reader.Close()
	var all []byte
	for {
		_, data, more, err := reader.Next(ctx)
		if err != nil || !more {
			return string(all), err != nil
		}
		all = append(all, data...)
		all = all[max(0, len(all)-hookOutputBytes):]
	}
}
