package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree is a root whose changes are written.
type tree struct {
	*testing.T
	root string
}

func treeOf(t *testing.T) tree { return tree{t, t.TempDir()} }

func (t tree) at(name string) string { return filepath.Join(t.root, name) }

func (t tree) file(name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(t.at(name)), 0o755))
	must(t, os.WriteFile(t.at(name), []byte(content), 0o644))
}

func (t tree) remove(name string) {
	t.Helper()
	must(t, os.RemoveAll(t.at(name)))
}

// base lists the tree in the form in which the cell does.
func (t tree) base() Base {
	t.Helper()
	// The times of a file system advance in steps.
	time.Sleep(20 * time.Millisecond)
	var records bytes.Buffer
	must(t, filepath.WalkDir(t.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == t.root {
			return err
		}
		var stat unix.Stat_t
		err = unix.Lstat(path, &stat)
		name := strings.TrimPrefix(path, t.root+"/")
		_, _ = fmt.Fprintf(&records, "%d %s\x000 %s/\x00", stat.Ctim.Nano(), name, name)
		return err
	}))
	base, err := ReadBase(&records)
	must(t, err)
	return base
}

func (t tree) write(base Base) (Counts, []byte) {
	t.Helper()
	var layer bytes.Buffer
	counts, err := Write(&layer, base, Options{Root: t.root, Mounts: []string{"proc"}, Leave: []string{"var/state"}})
	must(t, err)
	return counts, layer.Bytes()
}

// names returns the entries of a layer in their order.
func names(t testing.TB, layer []byte) []string {
	t.Helper()
	found := []string{}
	reader := tar.NewReader(bytes.NewReader(layer))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		must(t, err)
		_, err = io.Copy(io.Discard, reader)
		must(t, err)
		found = append(found, header.Name)
	}
}

func TestALayerHasWhatWasChanged(t *testing.T) {
	tests := map[string]struct {
		before, change func(t tree)
		entries        []string
	}{
		"nothing": {
			before: func(t tree) { t.file("a/b", ""); t.file(".wh.kept", "") },
			change: func(tree) {}, entries: []string{},
		},
		"a new file in an unchanged directory above": {
			before: func(t tree) { t.file("a/b/old", "") },
			change: func(t tree) { t.file("a/b/new", "") }, entries: []string{"a/", "a/b/", "a/b/new"},
		},
		"a deleted file": {
			before: func(t tree) { t.file("a/b", ""); t.file("a/c", "") },
			change: func(t tree) { t.remove("a/b") }, entries: []string{"a/", "a/.wh.b"},
		},
		"a deleted directory": {
			before: func(t tree) { t.file("a/b/c", "") },
			change: func(t tree) { t.remove("a") }, entries: []string{".wh.a"},
		},
		"a directory that was deleted and made again": {
			before: func(t tree) { t.file("a/b", "") },
			change: func(t tree) { t.remove("a"); t.file("a/new", "") }, entries: []string{"a/", "a/new", "a/.wh.b"},
		},
		"a renamed directory": {
			before: func(t tree) { t.file("a/b", "") },
			change: func(t tree) { t.remove("a"); t.file("z/b", "") }, entries: []string{"z/", "z/b", ".wh.a"},
		},
		"a file in place of a directory": {
			before: func(t tree) { t.file("a/b", "") },
			change: func(t tree) { t.remove("a"); t.file("a", "") }, entries: []string{"a"},
		},
		"a directory in place of a file": {
			before: func(t tree) { t.file("a", "") },
			change: func(t tree) { t.remove("a"); t.file("a/b", "") }, entries: []string{"a/", "a/b"},
		},
		"a device in place of a file, and another one": {
			before: func(t tree) { t.file("a/b", "") },
			change: func(t tree) {
				t.remove("a/b")
				must(t, unix.Mknod(t.at("a/b"), unix.S_IFCHR, int(unix.Mkdev(1, 3))))
				must(t, unix.Mknod(t.at("a/c"), unix.S_IFCHR, int(unix.Mkdev(1, 3))))
			}, entries: []string{"a/", "a/.wh.b"},
		},
		"a link in place of a directory, to one with a directory of the same name": {
			before: func(t tree) { t.file("a/b/c", ""); t.file("x/b/other", "") },
			change: func(t tree) { t.remove("a"); must(t, os.Symlink("x", t.at("a"))) }, entries: []string{"a"},
		},
		"files that are mounted or left out": {
			before: func(t tree) { t.file("proc/1", ""); t.file("var/state/a", ""); t.file("var/b", "") },
			change: func(t tree) {
				t.file("proc/2", "")
				t.remove("proc/1")
				t.remove("var/state/a")
				t.file(".gvisor.filestore.a", "")
			}, entries: []string{},
		},
		"hard links": {
			before: func(t tree) { t.file("a/1", "") },
			change: func(t tree) {
				t.file("b/1", "content")
				must(t, os.Link(t.at("b/1"), t.at("b/2")))
				must(t, os.Link(t.at("a/1"), t.at("a/2")))
			}, entries: []string{"a/", "a/1", "a/2", "b/", "b/1", "b/2"},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			root := treeOf(t)
			test.before(root)
			base := root.base()
			test.change(root)
			counts, layer := root.write(base)
			if found := names(t, layer); !slices.Equal(found, test.entries) || counts.Entries != int64(len(found)) {
				t.Errorf("the layer has %q and counts %+v, not %q", found, counts, test.entries)
			}
		})
	}
}

func TestADeletionBelowAnUnchangedDirectoryHasTheDirectory(t *testing.T) {
	root := treeOf(t)
	root.file("a/b/c", "")
	base := root.base()
	// As a file that is deleted after its directory was listed.
	base.add("a/b/late", 1)
	if _, layer := root.write(base); !slices.Equal(names(t, layer), []string{"a/", "a/b/", "a/b/.wh.late"}) {
		t.Errorf("the layer has %q", names(t, layer))
	}
}

func TestALayerCannotHaveTheNameOfAWhiteout(t *testing.T) {
	for title, change := range map[string]func(t tree){
		"file":             func(t tree) { t.file("a/.wh.b", "") },
		"directory":        func(t tree) { t.file("a/.wh.b/c", "") },
		"deleted file":     func(t tree) { t.remove("a/.wh..opq") },
		"part of the base": func(t tree) { t.file("a/.wh.old/new", "") },
	} {
		t.Run(title, func(t *testing.T) {
			root := treeOf(t)
			root.file("a/.wh..opq", "")
			root.file("a/.wh.old/c", "")
			base := root.base()
			change(root)
			if _, err := Write(io.Discard, base, Options{Root: root.root}); !errors.Is(err, errWhiteout) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestASparseFileAboveTheLimitIsRefusedBeforeItIsWritten(t *testing.T) {
	root := treeOf(t)
	base := root.base()
	root.file("a", "small")
	sparse, err := os.Create(root.at("b"))
	must(t, err)
	must(t, sparse.Truncate(10<<30))
	must(t, sparse.Close())
	var layer bytes.Buffer
	counts, err := Write(&layer, base, Options{Root: root.root, MostBytes: 10 << 30})
	if !errors.Is(err, ErrTooLarge) || layer.Len() > 1<<20 {
		t.Fatalf("got %v after %d bytes", err, layer.Len())
	}
	if counts.Bytes != 5 {
		t.Errorf("got %d bytes of files", counts.Bytes)
	}
	must(t, os.Truncate(root.at("b"), 1<<20))
	if _, err := Write(io.Discard, base, Options{Root: root.root, MostBytes: 1<<20 + 5}); err != nil {
		t.Errorf("files of exactly the limit: %v", err)
	}
}

func TestAMissingRootIsNoEmptyLayer(t *testing.T) {
	if _, err := Write(io.Discard, Base{}, Options{Root: filepath.Join(t.TempDir(), "missing")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

func TestProgramsThatChangeFilesMeanwhileLeaveALayerValid(t *testing.T) {
	root := treeOf(t)
	end := time.Now().Add(2 * time.Second)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for index := 0; time.Now().Before(end); index++ {
			name := root.at(fmt.Sprintf("d%d", index%7))
			_ = os.RemoveAll(name)
			switch index % 5 {
			case 0:
				_ = os.WriteFile(name, make([]byte, index%100_000), 0o600)
			case 1:
				_ = os.Symlink("d2", name)
			case 2:
				_ = unix.Mkfifo(name, 0o600)
			case 3:
				_ = os.Link(root.at("d0"), name)
			case 4:
				_ = os.Mkdir(name, 0o700)
				_ = os.WriteFile(filepath.Join(name, "a"), make([]byte, 100_000), 0o600)
				_ = os.Truncate(filepath.Join(name, "a"), int64(index%100_000))
			}
		}
	}()
	for time.Now().Before(end) {
		_, layer := root.write(Base{})
		first := map[string]bool{}
		for _, name := range names(t, layer) {
			if first[name] {
				t.Fatalf("the layer has %q twice", name)
			}
			first[name] = true
		}
	}
	<-done
}

// TestALayerIsUnpackedAsItWas writes a layer, unpacks it with the program of the node, and compares.
func TestALayerIsUnpackedAsItWas(t *testing.T) {
	root := treeOf(t)
	root.file("gone", "")
	base := root.base()
	root.remove("gone")
	root.file("deep/er/file", strings.Repeat("content", 100_000))
	root.file("odd\n\xff name", "odd")
	root.file(strings.Repeat("x", 255), "")
	root.file(strings.Repeat(strings.Repeat("y", 200)+"/", 15)+"end", "long")
	must(t, os.Chmod(root.at("deep/er/file"), 0o4711))
	must(t, os.Link(root.at("deep/er/file"), root.at("again")))
	must(t, os.Symlink("../\xff/outside", root.at("deep/link")))
	must(t, unix.Mkfifo(root.at("deep/fifo"), 0o620))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer func() { _ = unix.Close(socket) }()
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: root.at("deep/socket")}))
	for name, value := range map[string]string{"user.note": "a\x00\xff", "user.empty": "", "user.a=b": "lost"} {
		if err := unix.Setxattr(root.at("deep/er/file"), name, []byte(value), 0); err != nil {
			t.Logf("no extended attributes here: %v", err)
		}
	}
	sparse, err := os.Create(root.at("sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 64<<20)
	must(t, err)
	must(t, sparse.Close())
	for _, each := range []time.Time{time.Unix(-5, 7), time.Unix(1<<33, 9)} {
		must(t, os.Chtimes(root.at("odd\n\xff name"), each, each))
		must(t, os.Chtimes(root.at("deep/er"), each, each))
	}
	if os.Geteuid() == 0 {
		must(t, os.Lchown(root.at("deep/link"), 1<<32-2, 1<<31))
		root.file("closed/file", "")
		must(t, os.Chmod(root.at("closed"), 0))
		must(t, unix.Mknod(root.at("deep/null\xff\n"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	}
	counts, layer := root.write(base)
	if os.Geteuid() == 0 {
		must(t, os.Remove(root.at("deep/null\xff\n")))
		if counts.Skipped != 1 || !slices.Equal(counts.Names, []string{`/deep/null\xff\n`}) {
			t.Errorf("the layer has %+v", counts)
		}
	}
	unpacked := unpack(t, layer)
	var whiteout unix.Stat_t
	must(t, unix.Lstat(filepath.Join(unpacked, "gone"), &whiteout))
	if whiteout.Mode&unix.S_IFMT != unix.S_IFCHR || whiteout.Rdev != 0 {
		t.Errorf("the whiteout is %+v", whiteout)
	}
	must(t, os.Remove(filepath.Join(unpacked, "gone")))
	before, after := described(t, root.root), described(t, unpacked)
	// The directory's time changed with its device.
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if name != "deep" && before[name] != after[name] {
			t.Errorf("%.300q was %.300q, and is %.300q", name, before[name], after[name])
		}
	}
	if len(before) != len(after) {
		t.Errorf("of %d entries there are %d", len(before), len(after))
	}
}

// unpack runs the program of the node: this package cannot import the one that unpacks.
func unpack(t *testing.T, layer []byte) string {
	t.Helper()
	base := t.TempDir()
	program, file, directory := filepath.Join(base, "ramet-link"), filepath.Join(base, "layer.tar"), filepath.Join(base, "layer")
	if text, err := exec.Command("go", "build", "-o", program, "ramet.dev/native/link").CombinedOutput(); err != nil {
		t.Skipf("the program of the node cannot be built here: %s", text)
	}
	must(t, os.WriteFile(file, layer, 0o600))
	if text, err := exec.Command(program, "layer", file, directory).CombinedOutput(); err != nil {
		t.Fatalf("unpacking failed: %s", text)
	}
	return directory
}

// described returns all of a tree that a program can read.
func described(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		var stat unix.Stat_t
		must(t, unix.Lstat(path, &stat))
		text := fmt.Sprintf("%o %d:%d %v", stat.Mode, stat.Uid, stat.Gid, time.Unix(stat.Mtim.Sec, stat.Mtim.Nsec))
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			content, err := os.ReadFile(path)
			must(t, err)
			text += fmt.Sprintf(" %d %d %q", stat.Nlink, len(content), bytes.Trim(content, "\x00"))
			buffer := make([]byte, 100)
			for _, attribute := range []string{"user.note", "user.empty"} {
				size, err := unix.Lgetxattr(path, attribute, buffer)
				text += fmt.Sprintf(" %v %q", err, buffer[:max(size, 0)])
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			must(t, err)
			text += " " + target
		}
		found[strings.TrimPrefix(path, root+"/")] = text
		return nil
	}))
	return found
}

func TestAnInvalidListIsRefused(t *testing.T) {
	for _, list := range []string{
		"1 a", "1a\x00", "x a\x00", "1 \x00", "1 /a\x00", "1 a//\x00", "1 a//b\x00", "1 ..\x00", "1 a/../b\x00", "1 ./a\x00", "1 .\x00",
		"1 /\x00", "\x00", "99999999999999999999 a\x00", "1 " + strings.Repeat("a", longestRecord) + "\x00",
	} {
		if base, err := ReadBase(strings.NewReader(list)); err == nil {
			t.Errorf("%.80q was read as %v", list, base)
		}
	}
	base, err := ReadBase(strings.NewReader("-1 a\x002 a/b c\n\xff\x003 ...\x00"))
	if err != nil || base[""]["a"] != -1 || base["a"]["b c\n\xff"] != 2 || base[""]["..."] != 3 {
		t.Errorf("the list is %v: %v", base, err)
	}
}

func TestOnlyDirectoriesThatAreListedAreRead(t *testing.T) {
	root := treeOf(t)
	root.file("same/below/file", "")
	root.file("changed/same/file", "")
	root.file("changed/odd\xff/file", "")
	must(t, os.Mkdir(root.at("empty"), 0o755))
	whole := root.base()
	root.file("same/below/new", "unseen")
	root.file("changed/new/file", "")
	root.file("changed/odd\xff/new", "")
	root.file("empty/new", "")
	base := Base{"": whole[""]}
	asked := [][]string{}
	for {
		found, err := base.Unlisted(Options{Root: root.root, Mounts: []string{"changed/apart"}})
		must(t, err)
		if len(found) == 0 {
			break
		}
		slices.Sort(found)
		asked = append(asked, found)
		for _, each := range found {
			base[each] = whole[each]
		}
	}
	if text := fmt.Sprintf("%q", asked); text != `[["changed" "empty"] ["changed/odd\xff"]]` {
		t.Errorf("the directories are %s", text)
	}
	_, layer := root.write(base)
	expected := []string{"changed/", "changed/new/", "changed/new/file", "changed/odd\xff/", "changed/odd\xff/new", "empty/", "empty/new"}
	if found := names(t, layer); !slices.Equal(found, expected) {
		t.Errorf("the layer has %q", found)
	}
}
