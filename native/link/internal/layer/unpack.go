package layer

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/tree"
)

const (
	whiteout = ".wh."
	// engineFiles begin the names of files that gVisor and the cell have in a sandbox's root.
	engineFiles = ".gvisor."
	// mostEntries bounds what a layer costs, whatever its size.
	mostEntries = 4_000_000
	// longestName leaves room for the path of the directory below PATH_MAX, so that other programs can remove the layer.
	longestName = 3800
	// socketRecord marks an entry that is a socket: a tar has no type for it.
	socketRecord = "RAMET.socket"
)

var errTwice = errors.New("the layer has this name twice, or its parent is no directory of the layer")

// An unpacker writes entries below one directory. A layer was made by a sandbox, so its names and links may lead anywhere. Each
// entry is new, and each parent is a directory that the layer has made: no link is followed and nothing is overwritten.
type unpacker struct {
	result
	root int
	// parent is the open directory of the last entry, whose name is parentName.
	parent     int
	parentName string
	// directories get mode and times last: times change with each entry, and the mode can forbid to write.
	directories []directory
	buffer      []byte
}

type directory struct {
	name     string
	mode     uint32
	modified unix.Timespec
}

func unpack(file, directory string) (result, error) {
	from, err := os.Open(file)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = from.Close() }()
	return unpackFrom(from, directory)
}

func unpackFrom(from io.Reader, directory string) (result, error) {
	root, err := retry(func() (int, error) {
		return unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return result{}, err
	}
	defer func() { _ = unix.Close(root) }()
	u := &unpacker{root: root, parent: root, parentName: ".", buffer: make([]byte, 1<<20)}
	defer u.leaveParent()
	reader := tar.NewReader(bufio.NewReaderSize(from, 1<<20))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return u.result, u.finish()
		}
		if err != nil {
			return u.result, ofLayer(fmt.Errorf("reading the layer: %w", err))
		}
		if u.Entries++; u.Entries > mostEntries {
			return u.result, tree.Damage{Err: fmt.Errorf("the layer has more than %d entries", mostEntries)}
		}
		if err := u.entry(header, reader); err != nil {
			return u.result, ofLayer(fmt.Errorf("unpacking %.200q: %w", header.Name, err))
		}
	}
}

// ofLayer returns an error that occurred at an entry: a damage, unless the kernel has reported something that no entry can cause.
func ofLayer(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return tree.Damage{Err: err}
	}
	switch errno {
	case unix.EEXIST, unix.EFBIG, unix.EINVAL, unix.EISDIR, unix.ELOOP, unix.EMLINK, unix.ENAMETOOLONG, unix.ENOENT, unix.ENOTDIR:
		return tree.Damage{Err: err}
	}
	return err
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	name, err := checked(header.Name)
	if err != nil {
		return err
	}
	header.Name = name
	parent, err := u.parentOf(name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	if deleted, isWhiteout := strings.CutPrefix(base, whiteout); isWhiteout {
		return u.delete(parent, deleted, header)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.directory(parent, base, header)
	case tar.TypeReg:
		return u.file(parent, base, header, content)
	case tar.TypeSymlink:
		return u.symlink(parent, base, header)
	case tar.TypeLink:
		return u.link(parent, base, header.Linkname)
	case tar.TypeFifo:
		return u.node(unix.S_IFIFO, parent, base, header)
	case tar.TypeChar, tar.TypeBlock:
		if header.PAXRecords[socketRecord] != "" {
			return u.node(unix.S_IFSOCK, parent, base, header)
		}
		u.Skipped++
		return nil
	default:
		return fmt.Errorf("its type %q is unsupported", header.Typeflag)
	}
}

// checked returns the name of an entry relative to the layer.
func checked(name string) (string, error) {
	if len(name) > longestName {
		return "", fmt.Errorf("its name has more than %d bytes", longestName)
	}
	for _, part := range strings.Split(strings.TrimSuffix(name, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return "", errors.New("its name is not a path below the layer")
		}
	}
	if strings.HasPrefix(name, engineFiles) {
		return "", fmt.Errorf("names that begin with %s are reserved", engineFiles)
	}
	return strings.TrimSuffix(name, "/"), nil
}

// parentOf returns the open directory of an entry.
func (u *unpacker) parentOf(name string) (int, error) {
	parent := path.Dir(name)
	if parent == u.parentName {
		return u.parent, nil
	}
	opened := u.root
	if parent != "." {
		var err error
		if opened, err = u.open(parent); err != nil {
			return -1, err
		}
	}
	u.leaveParent()
	u.parent, u.parentName = opened, parent
	return opened, nil
}

func (u *unpacker) leaveParent() {
	if u.parent != u.root {
		_ = unix.Close(u.parent)
	}
	u.parent, u.parentName = u.root, "."
}

func (u *unpacker) open(directory string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	opened, err := retry(func() (int, error) { return unix.Openat2(u.root, directory, &how) })
	if err == unix.ELOOP || err == unix.ENOTDIR || err == unix.ENOENT {
		return -1, fmt.Errorf("the layer has no directory %.200q", directory)
	}
	return opened, err
}

// delete makes a whiteout of overlayfs: a character device with the number 0, for which no right is needed.
func (u *unpacker) delete(parent int, name string, header *tar.Header) error {
	if name == "" || name == "." || name == ".." || strings.HasPrefix(name, whiteout) || header.Typeflag != tar.TypeReg {
		return fmt.Errorf("names that begin with %s are for deleted files", whiteout)
	}
	return once(retried(func() error { return unix.Mknodat(parent, name, unix.S_IFCHR, 0) }))
}

func (u *unpacker) directory(parent int, base string, header *tar.Header) error {
	if err := once(retried(func() error { return unix.Mkdirat(parent, base, 0o700) })); err != nil {
		return err
	}
	opened, err := u.open(header.Name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(opened) }()
	mode, err := setOwner(opened, "", header)
	if err != nil {
		return err
	}
	u.directories = append(u.directories, directory{strings.Clone(header.Name), mode, timeOf(header)})
	return setAttributes(opened, header.PAXRecords)
}

func (u *unpacker) symlink(parent int, base string, header *tar.Header) error {
	if err := once(retried(func() error { return unix.Symlinkat(header.Linkname, parent, base) })); err != nil {
		return err
	}
	if _, err := setOwner(parent, base, header); err != nil {
		return err
	}
	return setTimes(parent, base, timeOf(header))
}

// node makes a FIFO, or a socket to which no process listens.
func (u *unpacker) node(kind uint32, parent int, base string, header *tar.Header) error {
	if err := once(retried(func() error { return unix.Mknodat(parent, base, kind|0o600, 0) })); err != nil {
		return err
	}
	mode, err := setOwner(parent, base, header)
	if err != nil {
		return err
	}
	// No link can be there: the layer has made this entry.
	if err := retried(func() error { return unix.Fchmodat(parent, base, mode, 0) }); err != nil {
		return err
	}
	return setTimes(parent, base, timeOf(header))
}

// link makes a hard link to a file of the layer. A link to another kind of entry could be to a whiteout.
func (u *unpacker) link(parent int, base, target string) error {
	name, err := checked(target)
	if err != nil {
		return fmt.Errorf("it is a link to %.200q: %w", target, err)
	}
	from := u.root
	if directory := path.Dir(name); directory != "." {
		if from, err = u.open(directory); err != nil {
			return err
		}
		defer func() { _ = unix.Close(from) }()
	}
	var stat unix.Stat_t
	if err := retried(func() error { return unix.Fstatat(from, path.Base(name), &stat, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return fmt.Errorf("it is a link to %.200q: %w", target, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("it is a link to %.200q, which is no file", target)
	}
	return once(retried(func() error { return unix.Linkat(from, path.Base(name), parent, base, 0) }))
}

// finish gives the directories their modes and times, the deepest first.
func (u *unpacker) finish() error {
	for index := len(u.directories) - 1; index >= 0; index-- {
		if err := u.finishDirectory(u.directories[index]); err != nil {
			return fmt.Errorf("unpacking %.200q: %w", u.directories[index].name, err)
		}
	}
	return nil
}

func (u *unpacker) finishDirectory(of directory) error {
	opened, err := u.open(of.name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(opened) }()
	if err := retried(func() error { return unix.Fchmod(opened, of.mode) }); err != nil {
		return err
	}
	return setTimes(opened, "", of.modified)
}

// once explains the error of an entry that exists.
func once(err error) error {
	if err == unix.EEXIST {
		return errTwice
	}
	return err
}
