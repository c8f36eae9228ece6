package tree

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mostOpen is how many levels are open while a tree is removed. What is deeper is moved up, so that no depth is too great.
const mostOpen = 100

// Remove removes a directory. A missing one is no error. An interrupted removal leaves nothing beside it.
func Remove(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return failed("Opening", filepath.Dir(path), err)
	}
	defer func() { _ = unix.Close(parent) }()
	name := filepath.Base(path)
	root, err := unlinkOrOpen(parent, name, path)
	if err != nil || root == removed {
		return err
	}
	defer func() { _ = unix.Close(root) }()
	r := &remover{root: root}
	for {
		before := r.moved
		if err := eachEntry(root, func(entry string) error { return r.entry(root, entry, entry, 1) }); err != nil {
			return named(err, path)
		}
		err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		// What is moved into a directory while it is read may not be found.
		if err != unix.ENOTEMPTY || r.moved == before {
			return failed("Removing", path, err)
		}
	}
}

type remover struct {
	// root gets what is too deep, under unused names.
	root  int
	moved int
}

func (r *remover) entry(directory int, name, path string, level int) error {
	child, err := unlinkOrOpen(directory, name, path)
	if err != nil || child == removed {
		return err
	}
	defer func() { _ = unix.Close(child) }()
	if level > mostOpen {
		return r.moveUp(directory, name, path)
	}
	if err := eachEntry(child, func(entry string) error { return r.entry(child, entry, path+"/"+entry, level+1) }); err != nil {
		return err
	}
	if err := unix.Unlinkat(directory, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return failed("Removing", path, err)
	}
	return nil
}

// removed is in place of the descriptor of an entry that was no directory.
const removed = -1

// unlinkOrOpen removes an entry, or opens it if it is a directory.
func unlinkOrOpen(directory int, name, path string) (int, error) {
	err := unix.Unlinkat(directory, name, 0)
	if err == nil || err == unix.ENOENT {
		return removed, nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return removed, failed("Removing", path, err)
	}
	fd, err := openBelow(directory, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EXDEV {
		return removed, failed("Removing", path, errors.New("another file system is mounted there"))
	}
	if err != nil {
		return removed, failed("Opening", path, err)
	}
	return fd, nil
}

// moveUp moves a directory to the root, where little is above it. The tree may have such names.
func (r *remover) moveUp(directory int, name, path string) error {
	for {
		r.moved++
		err := unix.Renameat2(directory, name, r.root, fmt.Sprintf(".%d", r.moved), unix.RENAME_NOREPLACE)
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return failed("Moving", path, err)
		}
		return nil
	}
}
