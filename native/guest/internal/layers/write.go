package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const whiteout = ".wh."

// Options describe a root.
type Options struct {
	// Root is the directory whose changes are written.
	Root string
	// Mounts are the paths, without a leading slash, at which other file systems are mounted. They are not a part of the root.
	Mounts []string
	// Leave are further paths whose changes are not written.
	Leave []string
}

// Counts tells what was written, and what a layer cannot hold.
type Counts struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// Skipped are sockets, which end with their process, and device nodes.
	Skipped int64 `json:"skipped"`
}

type writer struct {
	Counts
	Options
	base   Base
	out    *tar.Writer
	links  map[inode]string
	buffer []byte
}

type inode struct{ device, number uint64 }

// directory is one that is being walked. It is written with the first change below it: a layer has the directories of its
// entries, with their owners and modes.
type directory struct {
	name    string
	stat    unix.Stat_t
	parent  *directory
	written bool
}

// Write writes the changes since base. Files that programs change meanwhile have their old or their new content.
func Write(to io.Writer, base Base, options Options) (Counts, error) {
	w := &writer{Options: options, base: base, out: tar.NewWriter(to), links: map[inode]string{}, buffer: make([]byte, 256<<10)}
	var stat unix.Stat_t
	if err := unix.Lstat(w.Root, &stat); err != nil {
		return w.Counts, err
	}
	if err := w.walk(&directory{stat: stat, written: true}); err != nil {
		return w.Counts, err
	}
	if err := w.deletions(); err != nil {
		return w.Counts, err
	}
	return w.Counts, w.out.Close()
}

func (w *writer) at(name string) string { return path.Join(w.Root, name) }

func (w *writer) walk(in *directory) error {
	entries, err := os.ReadDir(w.at(in.name))
	if err != nil {
		return ignoreGone(err)
	}
	for _, entry := range entries {
		name := path.Join(in.name, entry.Name())
		if slices.Contains(w.Mounts, name) || slices.Contains(w.Leave, name) {
			continue
		}
		if err := w.entry(in, name); err != nil {
			return fmt.Errorf("writing %.200q failed: %w", name, err)
		}
	}
	return nil
}

func (w *writer) entry(in *directory, name string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(w.at(name), &stat); err != nil {
		return ignoreGone(err)
	}
	before, known := w.base[name]
	delete(w.base, name)
	changed := !known || before != stat.Ctim.Nano()
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		this := &directory{name: name, stat: stat, parent: in}
		if changed {
			if err := w.directory(this); err != nil {
				return err
			}
		}
		return w.walk(this)
	}
	if !changed {
		return nil
	}
	if strings.HasPrefix(path.Base(name), whiteout) {
		return fmt.Errorf("a layer cannot have a file whose name begins with %s", whiteout)
	}
	if err := w.directory(in); err != nil {
		return err
	}
	return w.file(name, &stat)
}

// directory writes a directory and those above it, once.
func (w *writer) directory(d *directory) error {
	if d.written {
		return nil
	}
	if err := w.directory(d.parent); err != nil {
		return err
	}
	d.written = true
	return w.header(d.name, &d.stat, tar.Header{Typeflag: tar.TypeDir, Name: d.name + "/"})
}

func (w *writer) file(name string, stat *unix.Stat_t) error {
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return w.regular(name, stat)
	case unix.S_IFLNK:
		target, err := os.Readlink(w.at(name))
		if err != nil {
			return ignoreGone(err)
		}
		return w.header(name, stat, tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target})
	case unix.S_IFIFO:
		return w.header(name, stat, tar.Header{Typeflag: tar.TypeFifo, Name: name})
	default:
		w.Skipped++
		return nil
	}
}

func (w *writer) regular(name string, stat *unix.Stat_t) error {
	if stat.Nlink > 1 {
		key := inode{uint64(stat.Dev), stat.Ino}
		if first, known := w.links[key]; known {
			return w.header(name, stat, tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first})
		}
		w.links[key] = name
	}
	fd, err := unix.Open(w.at(name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ignoreGone(err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { _ = file.Close() }()
	if err := w.header(name, stat, tar.Header{Typeflag: tar.TypeReg, Name: name, Size: stat.Size}); err != nil {
		return err
	}
	written, err := io.CopyBuffer(struct{ io.Writer }{w.out}, io.LimitReader(file, stat.Size), w.buffer)
	if err != nil {
		return err
	}
	w.Bytes += stat.Size
	// A program has made the file shorter.
	_, err = io.CopyBuffer(struct{ io.Writer }{w.out}, io.LimitReader(zeros{}, stat.Size-written), w.buffer)
	return err
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

func (w *writer) header(name string, stat *unix.Stat_t, header tar.Header) error {
	header.Format = tar.FormatPAX
	header.Mode = int64(stat.Mode & 0o7777)
	header.Uid, header.Gid = int(stat.Uid), int(stat.Gid)
	header.ModTime = time.Unix(0, stat.Mtim.Nano())
	if header.Typeflag != tar.TypeLink {
		attributes, err := w.attributes(name)
		if err != nil {
			return ignoreGone(err)
		}
		header.PAXRecords = attributes
	}
	w.Entries++
	return w.out.WriteHeader(&header)
}

// attributes returns the extended attributes in the form of other tar programs.
func (w *writer) attributes(name string) (map[string]string, error) {
	length, err := unix.Llistxattr(w.at(name), w.buffer)
	if errors.Is(err, unix.ENOTSUP) || length == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	records := map[string]string{}
	for _, attribute := range strings.Split(strings.TrimSuffix(string(w.buffer[:length]), "\x00"), "\x00") {
		size, err := unix.Lgetxattr(w.at(name), attribute, w.buffer)
		if err == nil {
			records["SCHILY.xattr."+attribute] = string(w.buffer[:size])
		}
	}
	return records, nil
}

// deletions writes what of the base no longer exists. What is below a deleted directory is deleted with it.
func (w *writer) deletions() error {
	names := make([]string, 0, len(w.base))
	for name := range w.base {
		if !w.isApart(name) && w.isDirectory(path.Dir(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		w.Entries++
		header := tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Dir(name), whiteout+path.Base(name)), Format: tar.FormatPAX}
		if err := w.out.WriteHeader(&header); err != nil {
			return err
		}
	}
	return nil
}

// isApart tells whether a path is at or below one that was not walked.
func (w *writer) isApart(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		if slices.Contains(w.Mounts, at) || slices.Contains(w.Leave, at) {
			return true
		}
	}
	return false
}

func (w *writer) isDirectory(name string) bool {
	var stat unix.Stat_t
	return unix.Lstat(w.at(name), &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR
}

// ignoreGone drops the error of an entry that was removed or replaced since it was listed.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return err
}
