package layer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const rootUsage = `usage:
  ramet-link root OLD NEW    makes the mount NEW the root directory of the process whose root directory is the mount OLD
`

// ReplaceRoot runs `ramet-link root` and returns its exit code. The process is the gofer of a sandbox that was created and not
// started: gVisor opens the root directory when it starts or restores the sandbox. After an error that sandbox must not be used.
func ReplaceRoot(args []string) int {
	if len(args) != 2 {
		fmt.Fprint(os.Stderr, rootUsage)
		return 2
	}
	if err := replaceRoot(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func replaceRoot(oldPath, newPath string) error {
	process, err := processWithRoot(oldPath)
	if err != nil {
		return err
	}
	root, err := unix.Open(process+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s/root: %w", process, err)
	}
	namespace, err := unix.Open(process+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s/ns/mnt: %w", process, err)
	}
	points, err := mountPoints(process)
	if err != nil {
		return err
	}
	// The process may have ended, and its PID may belong to another one.
	var opened unix.Stat_t
	if err := unix.Fstat(root, &opened); err != nil {
		return fmt.Errorf("reading %s/root: %w", process, err)
	}
	if !isAt(oldPath, &opened) || !isAt(process+"/root", &opened) {
		return fmt.Errorf("the process with the root directory %s has ended", oldPath)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, newPath, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cloning the mount %s: %w", newPath, err)
	}
	for _, point := range points {
		if err := makePoint(root, tree, point); err != nil {
			return fmt.Errorf("creating the mount point %s: %w", point, err)
		}
	}
	// As gVisor mounts the root directory of a gofer. Later mounts of the cell must not appear in it.
	attributes := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
		return fmt.Errorf("making the mount %s read-only: %w", newPath, err)
	}
	// Only a thread that shares its root directory with no other can enter a mount namespace. This one is locked to its goroutine.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the root directory: %w", err)
	}
	if err := unix.Setns(namespace, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering %s/ns/mnt: %w", process, err)
	}
	return pivot(root, tree, points)
}

// pivot mounts the tree over the root directory, with the mounts that are below it, and makes the tree the root directory of all
// processes that have this one.
func pivot(root, tree int, points []string) error {
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("entering the root directory: %w", err)
	}
	below := make([]int, len(points))
	for i, point := range points {
		const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
		mount, err := unix.OpenTree(root, point, flags)
		if err != nil {
			return fmt.Errorf("cloning the mount %s: %w", point, err)
		}
		below[i] = mount
	}
	const both = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	if err := unix.MoveMount(tree, "", root, "", both); err != nil {
		return fmt.Errorf("mounting the root directory: %w", err)
	}
	for i, point := range points {
		target, err := openPoint(tree, point)
		if err == nil {
			err = unix.MoveMount(below[i], "", target, "", both)
		}
		if err != nil {
			return fmt.Errorf("mounting %s: %w", point, err)
		}
	}
	if err := unix.Fchdir(tree); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root directory: %w", err)
	}
	// The former root directory is mounted over the new one.
	return unix.Unmount(".", unix.MNT_DETACH)
}

// processWithRoot returns the directory in /proc of the process whose root directory is a mount.
func processWithRoot(path string) (string, error) {
	var wanted unix.Stat_t
	if err := unix.Stat(path, &wanted); err != nil {
		return "", fmt.Errorf("finding the mount %s: %w", path, err)
	}
	roots, err := filepath.Glob("/proc/[0-9]*/root")
	if err != nil {
		return "", err
	}
	for _, root := range roots {
		if isAt(root, &wanted) {
			return filepath.Dir(root), nil
		}
	}
	return "", fmt.Errorf("no process has the root directory %s", path)
}

func isAt(path string, wanted *unix.Stat_t) bool {
	var found unix.Stat_t
	return unix.Stat(path, &found) == nil && found.Dev == wanted.Dev && found.Ino == wanted.Ino
}

// mountPoints returns where something is mounted directly on the file system of the process's root directory, relative to it.
func mountPoints(process string) ([]string, error) {
	text, err := os.ReadFile(process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	var root string
	var points []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		// proc_pid_mountinfo(5): the mount, its parent, the device, its root in the file system, the mount point.
		fields := strings.Fields(line)
		switch {
		case len(fields) < 5:
			return nil, fmt.Errorf("%s/mountinfo has the line %q", process, line)
		case fields[4] == "/":
			root = fields[0]
		case fields[1] == root:
			points = append(points, strings.TrimPrefix(unescaped.Replace(fields[4]), "/"))
		}
	}
	return points, nil
}

var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// makePoint creates a mount point of the kind of the mount, if there is none. It follows no symbolic link: a layer can have any.
func makePoint(root, tree int, point string) error {
	var mounted unix.Stat_t
	if err := unix.Fstatat(root, point, &mounted, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	at := tree
	names := strings.Split(point, "/")
	for i := range names {
		isDirectory := i < len(names)-1 || mounted.Mode&unix.S_IFMT == unix.S_IFDIR
		next, err := openPoint(at, names[i])
		if errors.Is(err, unix.ENOENT) {
			if err := makeEntry(at, names[i], isDirectory); err != nil {
				return err
			}
			next, err = openPoint(at, names[i])
		}
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(next, &stat); err != nil {
			return err
		}
		if isDirectory != (stat.Mode&unix.S_IFMT == unix.S_IFDIR) {
			return unix.ENOTDIR
		}
		at = next
	}
	return nil
}

func openPoint(at int, path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	return unix.Openat2(at, path, &how)
}

func makeEntry(at int, name string, isDirectory bool) error {
	if isDirectory {
		return unix.Mkdirat(at, name, 0o777)
	}
	file, err := unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o777)
	if err != nil {
		return err
	}
	return unix.Close(file)
}
