package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	attribute = "SCHILY.xattr."
	// highestID is the last user or group: chown(2) takes the next number for "unchanged".
	highestID = 1<<32 - 2
	setIDBits = unix.S_ISUID | unix.S_ISGID
)

// setOwner sets the owner of an entry of a directory, or of the open file itself if the name is empty. It returns the mode that
// the entry gets.
func setOwner(at int, name string, header *tar.Header) (mode uint32, err error) {
	if header.Uid < 0 || header.Uid > highestID || header.Gid < 0 || header.Gid > highestID {
		return 0, fmt.Errorf("its owner %d:%d does not exist", header.Uid, header.Gid)
	}
	err = retried(func() error {
		return unix.Fchownat(at, name, header.Uid, header.Gid, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	})
	mode = uint32(header.Mode & 0o7777)
	if err == unix.EINVAL {
		// A user namespace with one user cannot express other owners: everything belongs to that user. A program for another
		// owner's rights must not get those of that user.
		return mode &^ setIDBits, nil
	}
	if err != nil {
		return 0, fmt.Errorf("setting its owner %d:%d: %w", header.Uid, header.Gid, err)
	}
	return mode, nil
}

// setAttributes sets the extended attributes that the node supports.
func setAttributes(file int, records map[string]string) error {
	for record, value := range records {
		name, isAttribute := strings.CutPrefix(record, attribute)
		if !isAttribute || !mayHave(name) {
			continue
		}
		err := retried(func() error { return unix.Fsetxattr(file, name, []byte(value), 0) })
		switch {
		case err == unix.ENOTSUP || err == unix.EPERM:
		case err == unix.ENOSPC && len(value) > mostCertainBytes, err == unix.E2BIG, err == unix.ERANGE:
			return fmt.Errorf("its attribute %.80q of %d bytes is larger than the node's file system supports", name, len(value))
		case err != nil:
			return fmt.Errorf("setting its attribute %.80q: %w", name, err)
		}
	}
	return nil
}

// mostCertainBytes is the largest attribute that fits into any file system: ext4 has one block for all attributes of a file, and
// reports a larger one as a full disk.
const mostCertainBytes = 3 << 10

// mayHave tells whether an attribute may come from a sandbox. Overlayfs has attributes of its own, and labels of security modules
// belong to the node.
func mayHave(name string) bool {
	if strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.overlay.") {
		return false
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") ||
		name == "security.capability" || strings.HasPrefix(name, "system.posix_acl_")
}

func timeOf(header *tar.Header) unix.Timespec {
	return unix.Timespec{Sec: header.ModTime.Unix(), Nsec: int64(header.ModTime.Nanosecond())}
}

func setTimes(at int, name string, modified unix.Timespec) error {
	if name == "" {
		at, name = unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", at)
		return retried(func() error { return unix.UtimesNanoAt(at, name, []unix.Timespec{modified, modified}, 0) })
	}
	return retried(func() error {
		return unix.UtimesNanoAt(at, name, []unix.Timespec{modified, modified}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// retry repeats a system call that a signal has interrupted, for example one of Go's own.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		result, err := call()
		if !errors.Is(err, unix.EINTR) {
			return result, err
		}
	}
}

func retried(call func() error) error {
	_, err := retry(func() (struct{}, error) { return struct{}{}, call() })
	return err
}
