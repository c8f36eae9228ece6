package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	whiteout = ".wh."
	// engineFiles begin the names of files that gVisor has in the root.
	engineFiles = ".gvisor."
	// longestName is the longest path that `ramet-link layer` unpacks.
	longestName = 3800
	// mostAttributes leaves room below the longest header that Go reads, 1 MiB.
	mostAttributes = 512 << 10
)

// Options describe a root.
type Options struct {
	// Root is the directory whose changes are written.
	Root string
	// Mounts are the paths, without a leading slash, at which other file systems are mounted. They are not a part of the root.
	Mounts []string
	// Leave are further paths whose changes are not written.
	Leave []string
	// MostBytes is the largest sum of the sizes of files. 0: no limit.
	MostBytes int64
}

// Counts tells what was written, and what a layer cannot hold.
type Counts struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// Skipped are device nodes, which no layer may bring to a node.
	Skipped int64 `json:"skipped"`
	// Names are the first of them, in ASCII.
	Names []string `json:"names,omitempty"`
}

const (
	// socketRecord marks an entry that is a socket: a tar has no type for it. Unpackers that do not know it see a device node.
	socketRecord = "RAMET.socket"
	// mostSkippedNames and longestSkippedName leave room in a header of HTTP.
	mostSkippedNames   = 5
	longestSkippedName = 200
)

// ErrTooLarge is the error of files that exceed MostBytes. None of the file that does is written: its holes would take minutes.
var ErrTooLarge = errors.New("the changed files are too large")

var errWhiteout = errors.New("a layer cannot have a file whose name begins with " + whiteout)

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

// Write writes the changes since base. No program runs meanwhile.
func Write(to io.Writer, base Base, options Options) (Counts, error) {
	w := &writer{Options: options, base: base, out: tar.NewWriter(to), links: map[inode]string{}, buffer: make([]byte, 256<<10)}
	if _, err := lstat(w.Root); err != nil {
		return w.Counts, err
	}
	if err := w.walk(&directory{written: true}); err != nil {
		return w.Counts, err
	}
	return w.Counts, w.out.Close()
}

func (w *writer) at(name string) string { return path.Join(w.Root, name) }

func (w *writer) walk(in *directory) error {
	names, err := list(w.at(in.name))
	if err != nil {
		return ignoreGone(err)
	}
	deleted := w.base[in.name]
	delete(w.base, in.name)
	for _, each := range names {
		name := path.Join(in.name, each)
		if w.isApart(name) {
			continue
		}
		stat, err := lstat(w.at(name))
		if err != nil {
			if ignoreGone(err) == nil {
				continue
			}
			return failed(name, err)
		}
		before, known := deleted[each]
		delete(deleted, each)
		if err := w.entry(in, name, stat, entryState{known: known, changed: !known || before != stat.Ctim.Nano()}); err != nil {
			return err
		}
	}
	return w.deletions(in, deleted)
}

// list returns the sorted names in a directory. A name that a program has moved meanwhile can be listed twice.
func list(directory string) ([]string, error) {
	opened, err := os.OpenFile(directory, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	names, err := opened.Readdirnames(-1)
	slices.Sort(names)
	return slices.Compact(names), err
}

// isApart tells whether a path is one that is not a part of the layer.
func (w *writer) isApart(name string) bool {
	return slices.Contains(w.Mounts, name) || slices.Contains(w.Leave, name) || strings.HasPrefix(name, engineFiles)
}

// entryState tells whether the base has an entry, and whether it differs.
type entryState struct{ known, changed bool }

func (w *writer) entry(in *directory, name string, stat *unix.Stat_t, is entryState) error {
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		this := &directory{name: name, stat: *stat, parent: in}
		if is.changed {
			if err := w.directory(this); err != nil {
				return err
			}
		}
		// It was not changed, or was changed for the first time after the list was made.
		if is.known && w.base[name] == nil {
			return nil
		}
		return w.walk(this)
	}
	if !is.changed {
		return nil
	}
	if mode := stat.Mode & unix.S_IFMT; mode == unix.S_IFCHR || mode == unix.S_IFBLK {
		return w.device(in, name, is.known)
	}
	if err := w.directory(in); err != nil {
		return err
	}
	if err := w.file(name, stat); err != nil {
		return failed(name, err)
	}
	return nil
}

// device leaves out a device node. What it has replaced is deleted nevertheless.
func (w *writer) device(in *directory, name string, replaces bool) error {
	if w.Skipped++; w.Skipped <= mostSkippedNames {
		w.Names = append(w.Names, strings.Trim(strconv.QuoteToASCII("/"+name[:min(len(name), longestSkippedName)]), `"`))
	}
	if !replaces {
		return nil
	}
	return w.deletions(in, map[string]int64{path.Base(name): 0})
}

func failed(name string, err error) error { return fmt.Errorf("writing %.200q failed: %w", name, err) }

// directory writes a directory and those above it, once.
func (w *writer) directory(d *directory) error {
	if d.written {
		return nil
	}
	if err := w.directory(d.parent); err != nil {
		return err
	}
	d.written = true
	err := w.header(&d.stat, tar.Header{Typeflag: tar.TypeDir, Name: d.name + "/", PAXRecords: w.attributesAt(d.name)})
	if err != nil {
		return failed(d.name, err)
	}
	return nil
}

func (w *writer) file(name string, stat *unix.Stat_t) error {
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return w.regular(name, stat)
	case unix.S_IFLNK:
		target, err := os.Readlink(w.at(name))
		if errors.Is(err, unix.EINVAL) {
			// It is no link any more.
			return nil
		}
		if err != nil {
			return ignoreGone(err)
		}
		return w.header(stat, tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target})
	case unix.S_IFIFO:
		return w.header(stat, tar.Header{Typeflag: tar.TypeFifo, Name: name})
	case unix.S_IFSOCK:
		return w.header(stat, tar.Header{Typeflag: tar.TypeChar, Name: name, PAXRecords: map[string]string{socketRecord: "1"}})
	default:
		// Only a device node has another type, and it was left out.
		return nil
	}
}

func (w *writer) regular(name string, stat *unix.Stat_t) error {
	key := inode{uint64(stat.Dev), stat.Ino}
	if first, known := w.links[key]; known && stat.Nlink > 1 {
		return w.header(stat, tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first})
	}
	file, err := os.OpenFile(w.at(name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return ignoreGone(err)
	}
	defer func() { _ = file.Close() }()
	// A program can have replaced the file since it was listed.
	fd := int(file.Fd())
	if err := retried(func() error { return unix.Fstat(fd, stat) }); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	attributes := w.attributes(
		func(into []byte) (int, error) { return unix.Flistxattr(fd, into) },
		func(attribute string, into []byte) (int, error) { return unix.Fgetxattr(fd, attribute, into) },
	)
	if w.MostBytes > 0 && stat.Size > w.MostBytes-w.Bytes {
		return fmt.Errorf("%w: it has %d bytes with its holes, after %d bytes, and a layer has at most %d", ErrTooLarge, stat.Size, w.Bytes, w.MostBytes)
	}
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: stat.Size, PAXRecords: attributes}
	if err := w.header(stat, header); err != nil {
		return err
	}
	if stat.Nlink > 1 {
		w.links[inode{uint64(stat.Dev), stat.Ino}] = name
	}
	written, err := io.CopyBuffer(struct{ io.Writer }{w.out}, struct{ io.Reader }{io.LimitReader(file, stat.Size)}, w.buffer)
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

// deletions writes the entries of a directory that no longer exist. What is below a deleted directory is deleted with it.
func (w *writer) deletions(in *directory, deleted map[string]int64) error {
	for _, each := range slices.Sorted(maps.Keys(deleted)) {
		name := path.Join(in.name, each)
		if w.isApart(name) {
			continue
		}
		if strings.HasPrefix(each, whiteout) {
			return failed(name, errWhiteout)
		}
		if err := w.directory(in); err != nil {
			return err
		}
		if err := w.count(); err != nil {
			return err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: path.Join(in.name, whiteout+each), Format: tar.FormatPAX}
		if err := w.out.WriteHeader(&header); err != nil {
			return err
		}
	}
	return nil
}

func lstat(path string) (*unix.Stat_t, error) {
	var stat unix.Stat_t
	err := retried(func() error { return unix.Lstat(path, &stat) })
	return &stat, err
}

// retried repeats a system call that a signal has interrupted.
func retried(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// ignoreGone drops the error of an entry that was removed or replaced since it was listed.
func ignoreGone(err error) error {
	for _, gone := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.ESTALE} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}
