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

// Spec says what to run.
type Spec struct {
	Command string
	Args    []string
	// Env is the whole environment, as KEY=value.
	Env  []string
	Dir  string
	User users.User
	Tag  *string
	// Stdin gives the command a pipe to read from; without it, it reads end-of-file.
	Stdin bool
	// PTY gives the command a terminal of this size for all three streams.
	PTY *Size
	// Inherit gives the command the guest's own standard output and error; nothing is kept.
	Inherit bool
	// Hidden leaves the command out of List and of the lookups.
	Hidden bool
	// Request is what a caller asked for, handed back by List.
	Request any
}

// Start runs a command as the leader of a session of its own.
func (t *Table) Start(spec Spec) (*Process, error) {
	path, err := lookPath(spec)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(spec.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("working directory %q is not a directory", spec.Dir)
	}
	streams, err := openStreams(spec)
	if err != nil {
		return nil, fmt.Errorf("making the streams of %q: %w", spec.Command, err)
	}
	defer streams.closeChildEnds()
	attributes := &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: streams.childFiles(),
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: spec.PTY != nil, Credential: credential(spec.User)},
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

// credential is nil where nothing changes, so that a guest which is not root can start commands as itself.
func credential(user users.User) *syscall.Credential {
	if os.Getuid() != 0 && uint32(os.Getuid()) == user.UID && uint32(os.Getgid()) == user.GID {
		return nil
	}
	return &syscall.Credential{Uid: user.UID, Gid: user.GID, Groups: user.Groups}
}

func lookPath(spec Spec) (string, error) {
	if spec.Command == "" {
		return "", errors.New("no command is named")
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
