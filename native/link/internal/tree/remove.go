package tree

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mostOpen is how many levels are open while a tree is removed. What is deeper is moved up, so that no depth is too great.
const mostOpen = 100

// Remove removes a directory. A missing one is no error.
func Remove(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return failed("Opening", filepath.Dir(path), err)
	}
	defer func() { _ = unix.Close(parent) }()
	r := &remover{parent: parent, root: filepath.Base(path)}
	for next := []string{r.root}; len(next) > 0; next, r.deep = r.deep, nil {
		for _, name := range next {
			if err := r.entry(parent, name, name, 0); err != nil {
				return named(err, path)
			}
		}
	}
	return nil
}

type remover struct {
	// parent has the root of the tree and, as `<root>.<n>`, what was too deep.
	parent int
	root   string
	moved  int
	// deep are the names of those that are yet to be removed.
	deep []string
}

func (r *remover) entry(directory int, name, path string, level int) error {
	err := unix.Unlinkat(directory, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return failed("Removing", path, err)
	}
	if level > mostOpen {
		return r.moveUp(directory, name, path)
	}
	child, err := openBelow(directory, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EXDEV {
		return failed("Removing", path, errors.New("another file system is mounted there"))
	}
	if err != nil {
		return failed("Opening", path, err)
	}
	err = eachEntry(child, func(entry string) error { return r.entry(child, entry, path+"/"+entry, level+1) })
	_ = unix.Close(child)
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(directory, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return failed("Removing", path, err)
	}
	return nil
}

// moveUp moves a directory beside the root, where nothing is above it.
func (r *remover) moveUp(directory int, name, path string) error {
	r.moved++
	next := fmt.Sprintf("%s.%d", r.root, r.moved)
	if err := unix.Renameat(directory, name, r.parent, next); err != nil {
		return failed("Moving", path, err)
	}
	r.deep = append(r.deep, next)
	return nil
}
