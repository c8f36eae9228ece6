package pod

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// arrange sets up the pod's view of the machine: private mounts, a new /proc, bind mounts and hidden paths.
func arrange(p plan) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return refused("Setting the mounts to private", err)
	}
	// Sources are opened before paths are hidden, so that a directory can be shown inside a hidden one.
	trees := make([]int, len(p.Binds))
	for i, b := range p.Binds {
		tree, err := openTree(b)
		if err != nil {
			return refused("Binding "+filepath.Join(b.Source, b.Below), err)
		}
		defer func() { _ = unix.Close(tree) }()
		trees[i] = tree
	}
	for _, path := range p.Hide {
		if err := unix.Mount("ramet-hidden", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return refused("Hiding "+path, err)
		}
	}
	for i, b := range p.Binds {
		if err := attach(trees[i], b); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return refused("Mounting /proc", err)
	}
	if p.Hostname == "" {
		return nil
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return refused("Setting the host name", err)
	}
	return nil
}

// openTree opens a copy of the mounts at the source.
func openTree(b bind) (int, error) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	if b.Below == "" {
		return unix.OpenTree(unix.AT_FDCWD, b.Source, flags)
	}
	at, err := openBelow(b.Source, b.Below)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	return unix.OpenTree(at, "", flags|unix.AT_EMPTY_PATH)
}

// openBelow opens a path below a directory that others write to. It follows no symbolic link, and creates directories that
// are missing, with the mode of the directory.
func openBelow(root, below string) (int, error) {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(at, &stat); err != nil {
		_ = unix.Close(at)
		return -1, err
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for _, name := range strings.Split(below, "/") {
		next, err := unix.Openat2(at, name, &how)
		if errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(at, name, stat.Mode&0o777); err == nil || errors.Is(err, unix.EEXIST) {
				next, err = unix.Openat2(at, name, &how)
			}
			if err == nil {
				// Regardless of the umask. The path is through a descriptor, so it cannot be exchanged.
				_ = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", next), os.FileMode(stat.Mode&0o777))
			}
		}
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

func attach(tree int, b bind) error {
	if err := makeTarget(tree, b.Target); err != nil {
		return refused("Creating "+b.Target, err)
	}
	if b.ReadOnly {
		// Only this flag: in a user namespace the others of the original mount are locked.
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return refused("Remounting "+b.Target+" read-only", err)
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, b.Target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return refused("Binding to "+b.Target, err)
	}
	return nil
}

// makeTarget creates a mount point of the source's kind if there is none.
func makeTarget(tree int, target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	var source unix.Stat_t
	if err := unix.Fstat(tree, &source); err != nil {
		return err
	}
	if source.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func refused(what string, err error) *fault.Fault {
	if errors.Is(err, syscall.ENOENT) {
		return fault.New("NotFound", "", "%s failed: %v", what, err)
	}
	hint := ""
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		hint = "Inside a container, /proc must not be masked and mounting must be allowed (AppArmor, seccomp)"
		if name, turn := switchedOff(); name != "" && inUserNamespace() {
			return fault.New("HostUnsupported", turn, "%s failed: %v, because of the sysctl %s", what, err, name)
		}
	}
	return fault.New("HostUnsupported", hint, "%s failed: %v", what, err)
}

// inUserNamespace reports whether mapIDs has made this process root.
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(text))
	return err == nil && len(fields) == 3 && fields[2] == "1"
}
