package envd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/users"
)

// resolve returns an absolute path: `~` is the user's home, and a relative or empty path is relative to the working directory.
func resolve(path string, account identity.Account) string {
	switch {
	case path == "~":
		return account.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(account.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	default:
		return filepath.Join(account.Workdir, path)
	}
}

// makeParents creates a directory and its parents. The new ones belong to the user.
func makeParents(dir string, user users.User) error {
	if isDirectory(dir) {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeParents(parent, user); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if os.IsExist(err) && isDirectory(dir) {
			return nil
		}
		if os.IsExist(err) {
			return &os.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return err
	}
	return giveTo(dir, user)
}

// giveTo changes the owner if the guest has the permission.
func giveTo(path string, user users.User) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(user.UID), int(user.GID))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
