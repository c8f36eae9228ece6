package tree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copyAll(t *testing.T, from, to string) copied {
	t.Helper()
	result, err := copyTree(from, to, false)
	must(t, err)
	return result.(copied)
}

func statOf(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var stat unix.Stat_t
	must(t, unix.Lstat(path, &stat))
	return stat
}

func TestACopyKeepsEverythingOfATree(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	must(t, os.MkdirAll(filepath.Join(from, "sub/empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "sub/file"), []byte("content"), 0o600))
	must(t, os.Link(filepath.Join(from, "sub/file"), filepath.Join(from, "again")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(from, "link")))
	must(t, os.Symlink("nowhere", filepath.Join(from, "dangling")))
	must(t, unix.Mkfifo(filepath.Join(from, "fifo"), 0o640))
	must(t, os.WriteFile(filepath.Join(from, "odd\n\xff name"), nil, 0o644))
	must(t, os.Chmod(filepath.Join(from, "sub"), 0o1777))
	must(t, os.Chmod(filepath.Join(from, "sub/file"), 0o4711))
	if err := unix.Setxattr(filepath.Join(from, "sub/file"), "user.note", []byte("kept"), 0); err != nil {
		t.Logf("no extended attributes here: %v", err)
	}
	if os.Geteuid() == 0 {
		must(t, os.Lchown(filepath.Join(from, "link"), 4711, 4712))
		must(t, os.Lchown(filepath.Join(from, "sub/empty"), 4711, 4712))
	}
	old := time.Unix(1_000_000_000, 123_456_789)
	must(t, os.Chtimes(filepath.Join(from, "sub"), old, old))
	must(t, os.Chmod(from, 0o777))

	copyAll(t, from, to)
	for _, name := range []string{".", "sub", "sub/empty", "sub/file", "again", "link", "dangling", "fifo", "odd\n\xff name"} {
		want, got := statOf(t, filepath.Join(from, name)), statOf(t, filepath.Join(to, name))
		if want.Mode != got.Mode || want.Uid != got.Uid || want.Gid != got.Gid || want.Size != got.Size && want.Mode&unix.S_IFMT != unix.S_IFDIR {
			t.Errorf("%q: want %+v, got %+v", name, want, got)
		}
		if want.Mtim != got.Mtim {
			t.Errorf("%q: modified at %v, was %v", name, got.Mtim, want.Mtim)
		}
	}
	if a, b := statOf(t, filepath.Join(to, "sub/file")), statOf(t, filepath.Join(to, "again")); a.Ino != b.Ino {
		t.Error("two names of a file became two files")
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); err != nil || target != "/etc/passwd" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	value := make([]byte, 16)
	if n, err := unix.Getxattr(filepath.Join(from, "sub/file"), "user.note", value); err == nil {
		m, err := unix.Getxattr(filepath.Join(to, "sub/file"), "user.note", value[8:])
		if err != nil || !bytes.Equal(value[:n], value[8:8+m]) {
			t.Errorf("the attribute became %q, %v", value[8:8+m], err)
		}
	}
}

func TestHolesStayHoles(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	file, err := os.Create(filepath.Join(from, "sparse"))
	must(t, err)
	_, err = file.WriteAt([]byte("in the middle"), 512<<20)
	must(t, err)
	must(t, file.Truncate(1<<30))
	must(t, file.Close())
	copyAll(t, from, to)
	got := statOf(t, filepath.Join(to, "sparse"))
	if got.Size != 1<<30 || got.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes in %d blocks", got.Size, got.Blocks)
	}
	part := make([]byte, 13)
	copied, err := os.Open(filepath.Join(to, "sparse"))
	must(t, err)
	defer func() { _ = copied.Close() }()
	if _, err := copied.ReadAt(part, 512<<20); err != nil || string(part) != "in the middle" {
		t.Errorf("read %q, %v", part, err)
	}
}

// A directory that is replaced by a link again and again: with paths, a copy would leave the tree sooner or later.
func TestNeitherACopyNorARemovalLeavesTheTree(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	from := t.TempDir()
	directory, aside, link := filepath.Join(from, "d"), filepath.Join(from, "aside"), filepath.Join(from, "l")
	must(t, os.Mkdir(directory, 0o777))
	must(t, os.WriteFile(filepath.Join(directory, "secret"), []byte("public"), 0o600))
	must(t, os.Symlink(outside, link))
	var done atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for !done.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, directory, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
		}
		_ = os.RemoveAll(aside)
	}()
	for i := range 200 {
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if _, err := copyTree(from, to, false); err != nil {
			continue
		}
		for _, name := range []string{"d", "l"} {
			stat, err := os.Lstat(filepath.Join(to, name))
			if err != nil || !stat.IsDir() {
				continue
			}
			if text, _ := os.ReadFile(filepath.Join(to, name, "secret")); string(text) == "secret" {
				t.Fatal("the copy has a file from outside of the tree")
			}
		}
	}
	_ = Remove(from)
	done.Store(true)
	<-stopped
	if text, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(text) != "secret" {
		t.Fatal("the removal left the tree")
	}
}

func TestFilesThatVanishAreNoError(t *testing.T) {
	from := t.TempDir()
	var done atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; !done.Load(); i++ {
			path := filepath.Join(from, fmt.Sprint(i%64))
			_ = os.Remove(path)
			_ = os.WriteFile(path, []byte("x"), 0o600)
		}
	}()
	for i := range 20 {
		copyAll(t, from, filepath.Join(t.TempDir(), fmt.Sprint(i)))
	}
	done.Store(true)
	<-stopped
}

func TestRemovalOfATreeThatIsDeeperThanAPath(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	deepen(t, root, 1_500)
	to := filepath.Join(filepath.Dir(root), "copy")
	if result := copyAll(t, root, to); result.Entries != 1_501 {
		t.Errorf("copied %+v", result)
	}
	must(t, Remove(root))
	must(t, Remove(to))
	must(t, Remove(root))
	left, err := os.ReadDir(filepath.Dir(root))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// deepen makes a directory with so many levels below it.
func deepen(t *testing.T, path string, levels int) {
	t.Helper()
	must(t, os.Mkdir(path, 0o755))
	at, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(at, "directory", 0o755))
		next, err := unix.Openat(at, "directory", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
}

func TestARemovalGoesOnAfterOneThatWasInterruptedInADeepTree(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "root")
	must(t, os.Mkdir(root, 0o755))
	// What an earlier removal has moved up, and names that a hostile layer may have.
	for _, name := range []string{".1", ".2", "a", "b"} {
		deepen(t, filepath.Join(root, name), 250)
	}
	must(t, os.WriteFile(filepath.Join(root, ".3"), nil, 0o600))
	beside := filepath.Join(parent, "root.1")
	deepen(t, beside, 1)
	must(t, Remove(root))
	left, err := os.ReadDir(parent)
	must(t, err)
	if len(left) != 1 || left[0].Name() != "root.1" {
		t.Errorf("%v is left", left)
	}
}

func TestAFullDiskIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Unmount(small, 0) }()
	from := t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "big"), []byte(strings.Repeat("x", 1<<20)), 0o600))
	_, err := copyTree(from, filepath.Join(small, "to"), true)
	if !errors.Is(err, unix.ENOSPC) || errnoOf(err) != "ENOSPC" || !strings.Contains(err.Error(), `"./big"`) {
		t.Errorf("the error is %v", err)
	}
}
