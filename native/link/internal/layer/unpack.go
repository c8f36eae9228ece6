package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	whiteout  = ".wh."
	attribute = "SCHILY.xattr."
	// mostEntries bounds what a layer costs, whatever its size.
	mostEntries = 4_000_000
)

// An unpacker writes entries below one directory. A layer was made by a sandbox, so its names and links may lead anywhere:
// os.Root lets none of them lead out of the directory.
type unpacker struct {
	result
	root *os.Root
	// directories get their metadata last: it changes with each entry, and can forbid to write.
	directories []*tar.Header
	buffer      []byte
}

func unpack(file, directory string) (result, error) {
	from, err := os.Open(file)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = from.Close() }()
	root, err := os.OpenRoot(directory)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = root.Close() }()
	u := &unpacker{root: root, buffer: make([]byte, 1<<20)}
	reader := tar.NewReader(from)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return u.result, u.finish()
		}
		if err != nil {
			return u.result, fmt.Errorf("reading the layer: %w", err)
		}
		if u.Entries++; u.Entries > mostEntries {
			return u.result, fmt.Errorf("the layer has more than %d entries", mostEntries)
		}
		if err := u.entry(header, reader); err != nil {
			return u.result, fmt.Errorf("unpacking %.200q: %w", header.Name, err)
		}
	}
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if name == "." || path.IsAbs(name) || strings.HasPrefix(name, "../") || name == ".." {
		return errors.New("its name leads out of the layer")
	}
	header.Name = name
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return u.delete(path.Join(path.Dir(name), strings.TrimPrefix(base, whiteout)))
	}
	switch header.Typeflag {
	case tar.TypeDir:
		u.directories = append(u.directories, header)
		if err := u.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeReg:
		return u.file(header, content)
	case tar.TypeSymlink:
		if err := u.root.Symlink(header.Linkname, name); err != nil {
			return err
		}
		return u.metadata(header)
	case tar.TypeLink:
		return u.root.Link(path.Clean(header.Linkname), name)
	case tar.TypeFifo:
		if err := u.node(name, unix.S_IFIFO|0o600, 0); err != nil {
			return err
		}
		return u.metadata(header)
	default:
		u.Skipped++
		return nil
	}
}

func (u *unpacker) file(header *tar.Header, content io.Reader) error {
	file, err := u.root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := u.content(file, content); err != nil {
		return err
	}
	if err := file.Truncate(header.Size); err != nil {
		return err
	}
	return u.metadata(header)
}

// content writes a file and leaves holes for blocks of zeros: a sparse file of a sandbox is one on the node.
func (u *unpacker) content(file *os.File, content io.Reader) error {
	for at := int64(0); ; {
		length, err := io.ReadFull(content, u.buffer)
		if block := u.buffer[:length]; length > 0 && !isZero(block) {
			if _, err := file.WriteAt(block, at); err != nil {
				return err
			}
		}
		at += int64(length)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isZero(block []byte) bool {
	for _, each := range block {
		if each != 0 {
			return false
		}
	}
	return true
}

// delete makes a whiteout of overlayfs: a character device with the number 0, for which no right is needed.
func (u *unpacker) delete(name string) error { return u.node(name, unix.S_IFCHR, 0) }

func (u *unpacker) node(name string, mode uint32, device int) error {
	return u.inParent(name, func(parent int, base string) error { return unix.Mknodat(parent, base, mode, device) })
}

// inParent calls a function with the open directory of an entry. That directory is not reached through a link.
func (u *unpacker) inParent(name string, do func(parent int, base string) error) error {
	parent, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	return do(int(parent.Fd()), path.Base(name))
}

// metadata sets owner, attributes, mode and times, in the order in which none of them undoes another.
func (u *unpacker) metadata(header *tar.Header) error {
	isLink := header.Typeflag == tar.TypeSymlink
	err := u.root.Lchown(header.Name, header.Uid, header.Gid)
	// A user namespace with one user cannot express other owners: everything belongs to that user.
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return u.inParent(header.Name, func(parent int, base string) error {
		if err := setAttributes(parent, base, header.PAXRecords); err != nil {
			return err
		}
		if !isLink {
			if err := unix.Fchmodat(parent, base, uint32(header.Mode&0o7777), unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		return unix.UtimesNanoAt(parent, base, times(header.ModTime), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// setAttributes sets the extended attributes that the node supports. Overlayfs has attributes of its own, which no layer may set.
func setAttributes(parent int, base string, records map[string]string) error {
	for record, value := range records {
		name, isAttribute := strings.CutPrefix(record, attribute)
		if !isAttribute || strings.Contains(name, "overlay.") {
			continue
		}
		at := fmt.Sprintf("/proc/self/fd/%d/%s", parent, base)
		err := unix.Lsetxattr(at, name, []byte(value), 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("setting the attribute %.80q: %w", name, err)
		}
	}
	return nil
}

func times(modified time.Time) []unix.Timespec {
	time := unix.NsecToTimespec(modified.UnixNano())
	return []unix.Timespec{time, time}
}

// finish gives the directories their metadata, the deepest first.
func (u *unpacker) finish() error {
	for index := len(u.directories) - 1; index >= 0; index-- {
		if err := u.metadata(u.directories[index]); err != nil {
			return fmt.Errorf("unpacking %.200q: %w", u.directories[index].Name, err)
		}
	}
	return nil
}
