package tree

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// setMetadata gives an open file or directory the owner, mode, extended attributes and times of the original. The order matters:
// a change of the owner clears bits of the mode and a file's capabilities, and each of them changes the times.
func setMetadata(from, to int, stat *unix.Stat_t, path string) error {
	if err := unix.Fchown(to, int(stat.Uid), int(stat.Gid)); err != nil {
		return failed("Setting the owner of", path, err)
	}
	if err := unix.Fchmod(to, stat.Mode&0o7777); err != nil {
		return failed("Setting the mode of", path, err)
	}
	if err := copyAttributes(from, to); err != nil {
		return failed("Copying the attributes of", path, err)
	}
	if err := futimens(to, stat); err != nil {
		return failed("Setting the times of", path, err)
	}
	return nil
}

func copyAttributes(from, to int) error {
	names, err := list(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := get(from, name)
		if err == unix.ENODATA {
			continue
		}
		if err != nil {
			return err
		}
		err = unix.Fsetxattr(to, name, value, 0)
		// What a security module or the file system's own code sets is not for everyone to set.
		if err == unix.EPERM && !strings.HasPrefix(name, "user.") || err == unix.EOPNOTSUPP {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func list(file int) ([]string, error) {
	for {
		size, err := unix.Flistxattr(file, nil)
		if err == unix.EOPNOTSUPP || err == nil && size == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		buffer := make([]byte, size)
		size, err = unix.Flistxattr(file, buffer)
		if err == unix.ERANGE {
			continue
		}
		if err != nil {
			return nil, err
		}
		return strings.Split(strings.TrimSuffix(string(buffer[:size]), "\x00"), "\x00"), nil
	}
}

func get(file int, name string) ([]byte, error) {
	for {
		size, err := unix.Fgetxattr(file, name, nil)
		if err != nil {
			return nil, err
		}
		value := make([]byte, size)
		if size == 0 {
			return value, nil
		}
		size, err = unix.Fgetxattr(file, name, value)
		if err == unix.ERANGE {
			continue
		}
		if err != nil {
			return nil, err
		}
		return value[:size], nil
	}
}

func descriptorPath(file int) string { return fmt.Sprintf("/proc/self/fd/%d", file) }

func times(stat *unix.Stat_t) []unix.Timespec { return []unix.Timespec{stat.Atim, stat.Mtim} }

// futimens sets the times of an open file: utimensat(2) takes them for the descriptor itself, through its link in /proc.
func futimens(file int, stat *unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, descriptorPath(file), times(stat), 0)
}
