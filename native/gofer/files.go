package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
)

// files opens the files of one checkpoint. Its calls come from the sandbox's gVisor, which the sandbox may have taken over.
type files struct {
	Options
	mayWrite bool
	// cloned counts the bytes of all files. gVisor finishes one file after another.
	cloned uint64
}

// The files of a checkpoint of memory, and of one of files alone.
var names = map[string]bool{
	"checkpoint.img": true, "pages_meta.img": true, "pages.img": true, "fscheckpoint.pb": true, "multitar.img": true,
}

// Sizes of one operation: as large as is fast, because a clone takes the same time for each size.
const (
	mostBytes    = 64 << 20
	mostRanges   = 64
	mostParallel = 4
)

func (f *files) Destroy() {}

func (f *files) OpenRead(path string) (stateio.AsyncReader, error) {
	name, err := f.named(path)
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return newReader(f, fd), nil
}

func (f *files) OpenWrite(path string) (stateio.AsyncWriter, error) {
	name, err := f.named(path)
	if err != nil {
		return nil, err
	}
	if !f.mayWrite {
		return nil, fmt.Errorf("writing %s is not allowed", name)
	}
	fd, err := open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	return &writer{files: f, fd: fd}, nil
}

func (f *files) named(path string) (string, error) {
	name := filepath.Base(path)
	if !names[name] {
		return "", fmt.Errorf("%q is not a file of a checkpoint", name)
	}
	return filepath.Join(f.Directory, name), nil
}

func (f *files) report(cloned uint64) error {
	f.cloned += cloned
	if f.Report == "" || f.cloned == 0 {
		return nil
	}
	text, err := json.Marshal(Report{ClonedBytes: f.cloned})
	if err != nil {
		return err
	}
	return os.WriteFile(f.Options.Report, text, 0o600)
}

const layerFile = ".gvisor.filestore."

// registered returns a descriptor of a file that gVisor has registered, the sandbox's memory or its writable layer. gVisor has opened the
// layer in an overlay, which clones nothing, so the same file is opened below it.
func (f *files) registered(fd int32) (int, error) {
	if below := f.below(fd); below >= 0 {
		return below, nil
	}
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

func (f *files) below(fd int32) int {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || f.Layer == "" || !strings.HasPrefix(filepath.Base(path), layerFile) {
		return -1
	}
	below, err := open(filepath.Join(f.Layer, filepath.Base(path)), unix.O_RDWR)
	if err != nil {
		return -1
	}
	var above, opened unix.Stat_t
	if unix.Fstat(int(fd), &above) != nil || unix.Fstat(below, &opened) != nil || above.Ino != opened.Ino {
		_ = unix.Close(below)
		return -1
	}
	return below
}

func open(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// A clone needs whole blocks. No file system that can clone has larger ones by default.
const blockBytes = 4096

func isWhole(values ...uint64) bool {
	for _, value := range values {
		if value%blockBytes != 0 {
			return false
		}
	}
	return true
}
