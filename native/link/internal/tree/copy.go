package tree

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mostLevels limits the nesting of directories: each level needs two descriptors.
const mostLevels = 10_000

// copied is what a copy reports.
type copied struct {
	Entries int64 `json:"entries"`
	// SharedBytes is the size of the files that share their blocks with the originals.
	SharedBytes int64 `json:"sharedBytes"`
	// CopiedBytes is what was read and written.
	CopiedBytes int64 `json:"copiedBytes"`
	// Vanished counts the entries that were removed while the tree was copied.
	Vanished int64 `json:"vanished"`
}

// A copier copies one tree. Everything below the target is its own; everything below the source may change.
type copier struct {
	copied
	target      int
	cannotShare bool
	links       map[inode]*linked
	buffer      []byte
}

type inode struct{ device, number uint64 }

// linked is a file with several names, of which the first has been copied.
type linked struct {
	path string
	left uint64
}

func copyTree(from, to string, durable bool) (any, error) {
	source, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed("Opening", from, err)
	}
	defer func() { _ = unix.Close(source) }()
	if err := unix.Mkdir(to, 0o700); err != nil {
		return nil, failed("Creating", to, err)
	}
	target, err := unix.Open(to, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed("Opening", to, err)
	}
	defer func() { _ = unix.Close(target) }()
	c := &copier{target: target, links: map[inode]*linked{}, buffer: make([]byte, 1<<20)}
	if err := c.directory(source, target, ".", 0); err != nil {
		return nil, err
	}
	if !durable {
		return c.copied, nil
	}
	if err := unix.Syncfs(target); err != nil {
		return nil, failed("Writing", to, err)
	}
	return c.copied, nil
}

// directory copies the entries of an open directory, and then its metadata: its times change with each entry.
func (c *copier) directory(source, target int, path string, level int) error {
	if level > mostLevels {
		return failed("Copying", path, errors.New("directories are nested too deep"))
	}
	var stat unix.Stat_t
	if err := unix.Fstat(source, &stat); err != nil {
		return failed("Reading", path, err)
	}
	err := eachEntry(source, func(name string) error {
		return c.entry(source, target, name, path+"/"+name, level)
	})
	if err != nil {
		return err
	}
	c.Entries++
	return setMetadata(source, target, &stat, path)
}

func (c *copier) entry(source, target int, name, path string, level int) error {
	var stat unix.Stat_t
	err := unix.Fstatat(source, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = c.child(source, target, name, path, level)
		case unix.S_IFREG:
			err = c.file(source, target, name, path)
		case unix.S_IFLNK:
			err = c.symlink(source, target, name, &stat)
		default:
			err = c.special(target, name, &stat)
		}
	}
	if isVanished(err) {
		c.Vanished++
		return nil
	}
	return named(err, path)
}

func (c *copier) child(source, target int, name, path string, level int) error {
	from, err := openBelow(source, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EXDEV {
		// Another file system is mounted here. It is no part of the volume; its mount point is.
		c.Entries++
		return unix.Mkdirat(target, name, 0o755)
	}
	if err != nil {
		return gone(err)
	}
	defer func() { _ = unix.Close(from) }()
	if err := unix.Mkdirat(target, name, 0o700); err != nil {
		return err
	}
	to, err := openBelow(target, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(to) }()
	return c.directory(from, to, path, level+1)
}

func (c *copier) file(source, target int, name, path string) error {
	from, err := openBelow(source, name, unix.O_RDONLY)
	if err == unix.EXDEV {
		return nil
	}
	if err != nil {
		return gone(err)
	}
	defer func() { _ = unix.Close(from) }()
	var stat unix.Stat_t
	if err := unix.Fstat(from, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return errVanished
	}
	if done, err := c.link(target, name, path, &stat); done || err != nil {
		return err
	}
	to, err := unix.Openat(target, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(to) }()
	if err := c.content(from, to, stat.Size); err != nil {
		return err
	}
	c.Entries++
	return setMetadata(from, to, &stat, path)
}

// link creates another name of a file that has been copied.
func (c *copier) link(target int, name, path string, stat *unix.Stat_t) (bool, error) {
	if stat.Nlink < 2 {
		return false, nil
	}
	key := inode{uint64(stat.Dev), stat.Ino}
	first, known := c.links[key]
	if !known {
		c.links[key] = &linked{path: path, left: uint64(stat.Nlink) - 1}
		return false, nil
	}
	if first.left--; first.left == 0 {
		delete(c.links, key)
	}
	err := unix.Linkat(c.target, first.path, target, name, 0)
	if err == unix.ENAMETOOLONG || err == unix.EMLINK || err == unix.ENOENT {
		return false, nil
	}
	if err == nil {
		c.Entries++
	}
	return true, err
}

func (c *copier) symlink(source, target int, name string, stat *unix.Stat_t) error {
	buffer := make([]byte, unix.PathMax)
	length, err := unix.Readlinkat(source, name, buffer)
	if err != nil {
		if err == unix.EINVAL {
			return errVanished
		}
		return gone(err)
	}
	if err := unix.Symlinkat(string(buffer[:length]), target, name); err != nil {
		return err
	}
	c.Entries++
	if err := unix.Fchownat(target, name, int(stat.Uid), int(stat.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return unix.UtimesNanoAt(target, name, times(stat), unix.AT_SYMLINK_NOFOLLOW)
}

// special copies a FIFO, a socket or a device.
func (c *copier) special(target int, name string, stat *unix.Stat_t) error {
	if err := unix.Mknodat(target, name, stat.Mode, int(stat.Rdev)); err != nil {
		return err
	}
	c.Entries++
	if err := unix.Fchownat(target, name, int(stat.Uid), int(stat.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// The target is private, so nothing can have replaced the entry by a link.
	if err := unix.Fchmodat(target, name, stat.Mode&0o7777, 0); err != nil {
		return err
	}
	return unix.UtimesNanoAt(target, name, times(stat), unix.AT_SYMLINK_NOFOLLOW)
}

// eachEntry calls visit for the names in a directory, some at a time: a directory can have millions.
func eachEntry(directory int, visit func(name string) error) error {
	// A separate descriptor, because reading moves the offset.
	fd, err := openBelow(directory, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "directory")
	defer func() { _ = file.Close() }()
	for {
		names, err := file.Readdirnames(1024)
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errVanished means that an entry was removed or replaced while it was copied.
var errVanished = errors.New("the entry was removed")

func gone(err error) error {
	if vanished(err) {
		return errVanished
	}
	return err
}

func isVanished(err error) bool { return err == errVanished || err == unix.ENOENT }

// named adds the path to the error of a system call; others have it.
func named(err error, path string) error {
	if errno, ok := err.(unix.Errno); ok {
		return failed("Copying", path, errno)
	}
	return err
}
