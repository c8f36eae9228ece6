package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ramet.dev/native/guest/internal/users"
)

// Spec describes a command to run.
type Spec struct {
	Command string
	Args    []string
	// Env is the whole environment, as KEY=value.
	Env  []string
	Dir  string
	User users.User
	Tag  *string
	// Stdin connects standard input to a pipe instead of /dev/null.
	Stdin bool
	// PTY connects all three streams to a terminal of this size.
	PTY *Size
	// Inherit connects output and errors to the guest's own, so that no output is kept.
	Inherit bool
	// Hidden hides the command from List, ByPID and ByTag.
	Hidden bool
	// Request is a value of the caller, which List returns.
	Request any
}

// Start starts a command as the leader of a new process group, or of a new session if it gets a terminal. A group in the guest's own
// session is not orphaned: gVisor ends an orphaned group with SIGHUP when one of its processes is stopped and another one exits.
func (t *Table) Start(spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	path, err := lookPath(spec)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(spec.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("working directory %q is not a directory", spec.Dir)
	}
	streams, err := openStreams(spec)
	if err != nil {
		return nil, fmt.Errorf("opening the streams of %q: %w", spec.Command, err)
	}
	defer streams.closeChildEnds()
	attributes := &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: streams.childFiles(),
		Sys: &syscall.SysProcAttr{
			Setpgid: spec.PTY == nil, Setsid: spec.PTY != nil, Setctty: spec.PTY != nil, Credential: credential(spec.User),
		},
	}
	t.mu.Lock()
	pid, err := syscall.ForkExec(path, append([]string{spec.Command}, spec.Args...), attributes)
	if err != nil {
		t.mu.Unlock()
		streams.closeOwnEnds()
		return nil, &os.PathError{Op: "starting", Path: path, Err: err}
	}
	p := &Process{
		PID:     pid,
		Tag:     spec.Tag,
		Request: spec.Request,
		Output:  NewOutput(t.outputBytes),
		hidden:  spec.Hidden,
		table:   t,
		stdin:   streams.stdin,
		pty:     streams.pty,
		exited:  make(chan struct{}),
		ended:   make(chan struct{}),
	}
	t.processes = append(t.processes, p)
	t.mu.Unlock()
	p.run(streams)
	return p, nil
}

// credential returns nil if the user stays the same: a guest without root cannot set credentials, not even its own.
func credential(user users.User) *syscall.Credential {
	if os.Getuid() != 0 && uint32(os.Getuid()) == user.UID && uint32(os.Getgid()) == user.GID {
		return nil
	}
	return &syscall.Credential{Uid: user.UID, Gid: user.GID, Groups: user.Groups}
}

func lookPath(spec Spec) (string, error) {
	if spec.Command == "" {
		return "", errors.New("the command is empty")
	}
	if strings.Contains(spec.Command, "/") {
		path := spec.Command
		if !filepath.IsAbs(path) {
			path = filepath.Join(spec.Dir, path)
		}
		return path, executable(path)
	}
	var denied error
	for dir := range strings.SplitSeq(pathOf(spec.Env), ":") {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(spec.Dir, dir)
		}
		path := filepath.Join(dir, spec.Command)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, os.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &os.PathError{Op: "finding", Path: spec.Command, Err: fmt.Errorf("%w in PATH", os.ErrNotExist)}
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return &os.PathError{Op: "executing", Path: path, Err: os.ErrPermission}
	default:
		return nil
	}
}

func pathOf(env []string) string {
	for _, entry := range slices.Backward(env) {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return path
		}
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}
