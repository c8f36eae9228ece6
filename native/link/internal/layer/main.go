// Package layer unpacks layers, which sandboxes have made, into directories that overlayfs combines with an image.
package layer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/tree"
)

const usage = `usage:
  ramet-link layer FILE DIRECTORY         unpacks a layer into a new directory, unless the directory exists
  ramet-link layer --drop DIRECTORY TIME  moves a layer to DIRECTORY.dropped, unless it was used after TIME, in Unix milliseconds
`

// Main runs `ramet-link layer` and returns its exit code. It prints one line of JSON: what the layer has, or the error.
// Processes that unpack the same layer at the same time wait for the first one.
func Main(args []string) int {
	var result any
	var err error
	switch {
	case len(args) == 3 && args[0] == "--drop":
		var milliseconds int64
		if milliseconds, err = strconv.ParseInt(args[2], 10, 64); err == nil {
			result, err = drop(args[1], time.UnixMilli(milliseconds))
		}
	case len(args) == 2:
		result, err = provide(args[0], args[1])
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err != nil {
		tree.PrintFailure(err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(result)
	return 0
}

type result struct {
	// Existed: another process had unpacked the layer.
	Existed bool  `json:"existed"`
	Entries int64 `json:"entries"`
	// Skipped are device nodes, which no layer may bring to a node.
	Skipped int64 `json:"skipped"`
}

func provide(file, directory string) (result, error) {
	lock, err := lockOf(directory, unix.LOCK_EX)
	if err != nil {
		return result{}, fmt.Errorf("waiting for another process that unpacks the layer: %w", err)
	}
	defer func() { _ = lock.Close() }()
	// Layers that nothing uses for a while are removed.
	now := time.Now()
	if err := os.Chtimes(lock.Name(), now, now); err != nil {
		return result{}, err
	}
	if _, err := os.Lstat(directory); !errors.Is(err, fs.ErrNotExist) {
		return result{Existed: err == nil}, err
	}
	// A process that was killed can have left its draft.
	draft := directory + ".draft"
	if err := tree.Remove(draft); err != nil {
		return result{}, err
	}
	found, err := unpackDraft(file, draft)
	if err == nil {
		err = os.Rename(draft, directory)
	}
	if err != nil {
		_ = tree.Remove(draft)
		return result{}, err
	}
	return found, syncDirectory(filepath.Dir(directory))
}

// mostLocks is how often another process can remove a lock while it is taken.
const mostLocks = 1000

// lockOf locks a layer. The kernel releases the lock when the process ends, whatever ends it. Cells can write any file at its path,
// and the node calls it for all of them.
func lockOf(directory string, how int) (*os.File, error) {
	path := directory + ".lock"
	for range mostLocks {
		lock, err := openLock(path)
		if err != nil {
			return nil, err
		}
		err = retried(func() error { return unix.Flock(int(lock.Fd()), how) })
		if err == nil {
			var own, found os.FileInfo
			if own, err = lock.Stat(); err == nil {
				if found, err = os.Lstat(path); err == nil && os.SameFile(own, found) {
					return lock, nil
				}
			}
		}
		_ = lock.Close()
		// The process that had the lock has removed it.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("other processes remove %s again and again", path)
}

func openLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	stat, err := lock.Stat()
	if err == nil && !stat.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

type dropResult struct {
	// Dropped: no process has the lock, and none has used the layer.
	Dropped bool `json:"dropped"`
}

// drop moves a layer and its draft to other names, as their removal takes long, and removes the lock. A process that uses an unpacked layer
// renews the time of the lock before it looks for the layer, without the lock: it finds no layer, or drop finds the new time. Cells can
// write to the parent directory, so no path leads through what is in it.
func drop(directory string, unusedSince time.Time) (dropResult, error) {
	lock, err := lockOf(directory, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return dropResult{}, nil
	}
	if err != nil {
		return dropResult{}, err
	}
	defer func() { _ = lock.Close() }()
	if isUsed, err := isNewer(lock, unusedSince); isUsed || err != nil {
		return dropResult{}, err
	}
	dropped := directory + ".dropped"
	if err := renameIfPresent(directory, dropped); err != nil {
		return dropResult{}, err
	}
	if isUsed, err := isNewer(lock, unusedSince); isUsed || err != nil {
		return dropResult{}, errors.Join(err, renameIfPresent(dropped, directory))
	}
	draft := directory + ".draft"
	if err := renameIfPresent(draft, draft+".dropped"); err != nil {
		return dropResult{}, err
	}
	return dropResult{Dropped: true}, os.Remove(lock.Name())
}

func isNewer(file *os.File, than time.Time) (bool, error) {
	stat, err := file.Stat()
	return err == nil && stat.ModTime().After(than), err
}

// renameIfPresent replaces nothing.
func renameIfPresent(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

func unpackDraft(file, draft string) (result, error) {
	if err := os.Mkdir(draft, 0o755); err != nil {
		return result{}, err
	}
	found, err := unpack(file, draft)
	if err != nil {
		return result{}, err
	}
	return found, syncAll(draft)
}

// syncAll waits until the whole file system is on the disk: after a power failure an unpacked layer is complete or absent.
func syncAll(directory string) error {
	opened, err := os.Open(directory)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	return retried(func() error { return unix.Syncfs(int(opened.Fd())) })
}

func syncDirectory(directory string) error {
	opened, err := os.Open(directory)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	return opened.Sync()
}
