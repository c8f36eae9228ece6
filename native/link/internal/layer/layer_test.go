package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/tree"
)

func TestMain(m *testing.M) {
	if file := os.Getenv("RAMET_TEST_UNPACK"); file != "" {
		os.Exit(Main([]string{file, os.Getenv("RAMET_TEST_DIRECTORY")}))
	}
	os.Exit(m.Run())
}

type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

func hardLink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

func with(from entry, change func(*tar.Header)) entry {
	change(&from.Header)
	return from
}

func layerOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, each := range entries {
		each.Format = tar.FormatPAX
		if each.Uid == 0 && each.Gid == 0 {
			each.Uid, each.Gid = os.Geteuid(), os.Getegid()
		}
		must(t, writer.WriteHeader(&each.Header))
		_, err := io.WriteString(writer, each.content)
		must(t, err)
	}
	must(t, writer.Close())
	return out.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a layer's file and the directory for it, beside which nothing may appear or change.
type place struct{ file, directory, outside string }

func placeOf(t *testing.T, layer []byte) place {
	t.Helper()
	base := t.TempDir()
	p := place{filepath.Join(base, "layer.tar"), filepath.Join(base, "cache", "layer"), filepath.Join(base, "outside")}
	must(t, os.WriteFile(p.file, layer, 0o600))
	must(t, os.Mkdir(filepath.Dir(p.directory), 0o700))
	must(t, os.Mkdir(p.outside, 0o755))
	must(t, os.WriteFile(filepath.Join(p.outside, "secret"), []byte("secret"), 0o600))
	return p
}

func (p place) checkOutside(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(p.outside)
	must(t, err)
	content, err := os.ReadFile(filepath.Join(p.outside, "secret"))
	must(t, err)
	stat := statOf(t, filepath.Join(p.outside, "secret"))
	if len(entries) != 1 || string(content) != "secret" || stat.Mode&0o7777 != 0o600 || stat.Nlink != 1 {
		t.Errorf("outside of the layer are %v, with %q, mode %o and %d links", entries, content, stat.Mode, stat.Nlink)
	}
}

// isDamage tells whether the layer is the cause of an error.
func isDamage(err error) bool { return errors.As(err, new(tree.Damage)) }

// checkFailed expects that nothing of a layer is left, except its lock.
func (p place) checkFailed(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(p.directory))
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "layer.lock" {
		t.Errorf("the failed layer left %v", entries)
	}
}

func statOf(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var stat unix.Stat_t
	must(t, unix.Lstat(path, &stat))
	return stat
}

func unpacked(t *testing.T, entries ...entry) (result, string) {
	t.Helper()
	p := placeOf(t, layerOf(t, entries...))
	found, err := provide(p.file, p.directory)
	must(t, err)
	p.checkOutside(t)
	return found, p.directory
}

func TestALayerIsUnpackedCompletely(t *testing.T) {
	old := time.Unix(1_000_000_000, 123_456_789)
	long := strings.Repeat("x", 255)
	found, at := unpacked(t,
		with(dir("dir/"), func(h *tar.Header) { h.Mode, h.ModTime = 0o1750, old }),
		with(file("dir/file", "content"), func(h *tar.Header) {
			h.Mode, h.ModTime = 0o4755, old
			h.PAXRecords = map[string]string{
				attribute + "user.note": "a\x00b", attribute + "user.empty": "", attribute + "user.overlay.opaque": "y",
				attribute + "trusted.overlay.redirect": "/", attribute + "security.selinux": "label",
			}
		}),
		hardLink("dir/again", "dir/file"), symlink("dir/absolute", "/etc/passwd"), symlink("dir/up", "../../outside/secret"),
		with(symlink("dir/dangling", "nowhere"), func(h *tar.Header) { h.ModTime = old }),
		entry{tar.Header{Typeflag: tar.TypeFifo, Name: "dir/fifo", Mode: 0o640}, ""},
		entry{tar.Header{
			Typeflag: tar.TypeChar, Name: "dir/socket", Mode: 0o620, Devmajor: 1, Devminor: 1, ModTime: old,
			PAXRecords: map[string]string{socketRecord: "1"},
		}, ""},
		entry{tar.Header{Typeflag: tar.TypeChar, Name: "dir/null", Devmajor: 1, Devminor: 3}, ""},
		entry{tar.Header{Typeflag: tar.TypeBlock, Name: "dir/disk", Devmajor: 8}, ""},
		file("dir/.wh.deleted", ""), file(".wh.gone", ""), file("odd\n\xff name", "odd"), file(long, "long"), file("...", ""),
	)
	if found != (result{Entries: 15, Skipped: 2}) {
		t.Errorf("the layer has %+v", found)
	}
	stat := statOf(t, filepath.Join(at, "dir/file"))
	if stat.Mode != unix.S_IFREG|0o4755 || stat.Mtim.Nano() != old.UnixNano() || stat.Nlink != 2 {
		t.Errorf("the file is %+v", stat)
	}
	if stat := statOf(t, filepath.Join(at, "dir")); stat.Mode != unix.S_IFDIR|0o1750 || stat.Mtim.Nano() != old.UnixNano() {
		t.Errorf("the directory is %+v", stat)
	}
	if stat := statOf(t, filepath.Join(at, "dir/dangling")); stat.Mtim.Nano() != old.UnixNano() {
		t.Errorf("the symlink is %+v", stat)
	}
	for _, whiteout := range []string{"dir/deleted", "gone"} {
		if stat := statOf(t, filepath.Join(at, whiteout)); stat.Mode&unix.S_IFMT != unix.S_IFCHR || stat.Rdev != 0 {
			t.Errorf("the whiteout %s is %+v", whiteout, stat)
		}
	}
	if stat := statOf(t, filepath.Join(at, "dir/fifo")); stat.Mode != unix.S_IFIFO|0o640 {
		t.Errorf("the FIFO is %+v", stat)
	}
	if stat := statOf(t, filepath.Join(at, "dir/socket")); stat.Mode != unix.S_IFSOCK|0o620 || stat.Rdev != 0 || stat.Mtim.Nano() != old.UnixNano() {
		t.Errorf("the socket is %+v", stat)
	}
	for name, content := range map[string]string{"dir/again": "content", "odd\n\xff name": "odd", long: "long", "...": ""} {
		if got, err := os.ReadFile(filepath.Join(at, name)); err != nil || string(got) != content {
			t.Errorf("%q has %q: %v", name, got, err)
		}
	}
	for name, target := range map[string]string{"absolute": "/etc/passwd", "up": "../../outside/secret"} {
		if got, err := os.Readlink(filepath.Join(at, "dir", name)); err != nil || got != target {
			t.Errorf("%s leads to %q: %v", name, got, err)
		}
	}
	for _, skipped := range []string{"dir/null", "dir/disk"} {
		if _, err := os.Lstat(filepath.Join(at, skipped)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the device %s is there: %v", skipped, err)
		}
	}
	checkAttributes(t, filepath.Join(at, "dir/file"))
}

func checkAttributes(t *testing.T, path string) {
	t.Helper()
	buffer := make([]byte, 1024)
	for _, name := range []string{"user.overlay.opaque", "trusted.overlay.redirect"} {
		if _, err := unix.Lgetxattr(path, name, buffer); err == nil {
			t.Errorf("the attribute %s is set", name)
		}
	}
	if size, err := unix.Lgetxattr(path, "security.selinux", buffer); err == nil && string(buffer[:size]) == "label" {
		t.Error("the label of a security module is set")
	}
	size, err := unix.Lgetxattr(path, "user.note", buffer)
	if err == unix.ENOTSUP {
		t.Log("the file system of the temporary directory has no extended attributes")
		return
	}
	if err != nil || string(buffer[:size]) != "a\x00b" {
		t.Errorf("user.note is %q: %v", buffer[:max(size, 0)], err)
	}
	if size, err := unix.Lgetxattr(path, "user.empty", buffer); err != nil || size != 0 {
		t.Errorf("user.empty has %d bytes: %v", size, err)
	}
}

func TestAHostileLayerIsRefused(t *testing.T) {
	whiteoutOf := func(name string) entry { return file(name, "") }
	for title, entries := range map[string][]entry{
		"an absolute name":                    {file("/outside", "")},
		"a name that leads up":                {file("../outside/new", "")},
		"a name that leads up later":          {dir("a"), file("a/../../outside/new", "")},
		"a name that leads to itself":         {file("./a", "")},
		"the root":                            {dir("./")},
		"an empty part of a name":             {dir("a"), file("a//b", "")},
		"a parent that is a link to outside":  {symlink("a", "../../outside"), file("a/new", "")},
		"a parent that is an absolute link":   {symlink("a", "/"), file("a/new", "")},
		"a parent that is a link inside":      {dir("b"), symlink("a", "b"), file("a/new", "")},
		"a parent that is a file":             {file("a", ""), file("a/new", "")},
		"a parent that does not exist":        {file("a/new", "")},
		"a parent that is a whiteout":         {whiteoutOf(".wh.a"), file("a/new", "")},
		"a directory over a link to outside":  {symlink("a", "../../outside"), dir("a")},
		"a file over a link to outside":       {symlink("a", "../../outside/secret"), file("a", "new")},
		"a whiteout below a link":             {symlink("a", "../../outside"), whiteoutOf("a/.wh.secret")},
		"a hard link to outside":              {hardLink("a", "../../outside/secret")},
		"an absolute hard link":               {hardLink("a", "/etc/passwd")},
		"a hard link through a link":          {symlink("b", "../../outside"), hardLink("a", "b/secret")},
		"a hard link to a link":               {symlink("b", "../../outside/secret"), hardLink("a", "b")},
		"a hard link to a whiteout":           {whiteoutOf(".wh.b"), hardLink("a", "b")},
		"a hard link to a directory":          {dir("b"), hardLink("a", "b")},
		"a hard link to nothing":              {hardLink("a", "b")},
		"a hard link to itself":               {hardLink("a", "a")},
		"a file twice":                        {file("a", "1"), file("a", "2")},
		"a directory twice":                   {dir("a"), dir("a")},
		"a directory over a file":             {file("a", ""), dir("a")},
		"a file over a directory":             {dir("a"), file("a", "")},
		"a file over a whiteout":              {whiteoutOf(".wh.a"), file("a", "")},
		"a whiteout over a file":              {file("a", ""), whiteoutOf(".wh.a")},
		"a whiteout without a name":           {dir("d"), whiteoutOf("d/.wh.")},
		"a whiteout of the directory":         {dir("d"), whiteoutOf("d/.wh..")},
		"a whiteout of its parent":            {dir("d"), whiteoutOf("d/.wh...")},
		"an opaque directory":                 {dir("d"), whiteoutOf("d/.wh..wh..opq")},
		"a directory that is a whiteout":      {dir(".wh.a")},
		"a link that is a whiteout":           {symlink(".wh.a", "b")},
		"a name of 256 bytes":                 {file(strings.Repeat("a", 256), "")},
		"a path that no program can remove":   {file(strings.Repeat("a/", 1900)+"ab", "")},
		"a file of gVisor":                    {file(".gvisor.filestore.a", "")},
		"a link in place of a file of gVisor": {symlink(".gvisor.filestore.a", "/")},
		"an owner that leaves the owner":      {with(file("a", ""), func(h *tar.Header) { h.Uid = 1<<32 - 1 })},
		"a group that no system has":          {with(file("a", ""), func(h *tar.Header) { h.Gid = 1 << 40 })},
		"an unknown kind":                     {with(file("a", ""), func(h *tar.Header) { h.Typeflag = 'Z' })},
	} {
		t.Run(title, func(t *testing.T) {
			p := placeOf(t, layerOf(t, entries...))
			found, err := provide(p.file, p.directory)
			if err == nil || !strings.HasPrefix(err.Error(), "unpacking ") || !isDamage(err) {
				t.Errorf("the error is %v, the result %+v", err, found)
			}
			p.checkOutside(t)
			p.checkFailed(t)
		})
	}
}

func TestASparseEntryIsRefused(t *testing.T) {
	var out bytes.Buffer
	content := "1\n1099511627775\n1\n"
	writer := tar.NewWriter(&out)
	must(t, writer.WriteHeader(&tar.Header{Name: "GNUSparseFile.0/a", Typeflag: tar.TypeReg, Size: 512 + 1, Format: tar.FormatUSTAR}))
	_, err := io.WriteString(writer, content+strings.Repeat("\x00", 512-len(content))+"x")
	must(t, err)
	must(t, writer.Close())
	var records string
	for _, record := range [][2]string{
		{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", "a"}, {"GNU.sparse.realsize", "1099511627776"},
	} {
		length := len(record[0]) + len(record[1]) + 5
		records += fmt.Sprintf("%d %s=%s\n", length, record[0], record[1])
	}
	var head bytes.Buffer
	writer = tar.NewWriter(&head)
	must(t, writer.WriteHeader(&tar.Header{Name: "pax", Typeflag: tar.TypeReg, Size: int64(len(records)), Format: tar.FormatUSTAR}))
	_, err = io.WriteString(writer, records)
	must(t, err)
	must(t, writer.Flush())
	layer := head.Bytes()
	layer[156] = tar.TypeXHeader
	sign(layer[:512])
	p := placeOf(t, append(layer, out.Bytes()...))
	if _, err := provide(p.file, p.directory); err == nil || !strings.Contains(err.Error(), "sparse") {
		t.Errorf("the error is %v", err)
	}
	p.checkFailed(t)
}

// sign sets the checksum of a header.
func sign(header []byte) {
	copy(header[148:156], "        ")
	sum := 0
	for _, each := range header {
		sum += int(each)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func TestAnIncompleteLayerIsRefused(t *testing.T) {
	whole := layerOf(t, file("a", strings.Repeat("x", 5000)))
	for _, size := range []int{100, 512, 513, 1000, 5000} {
		p := placeOf(t, whole[:size])
		if _, err := provide(p.file, p.directory); !isDamage(err) || !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("with %d bytes the error is %v", size, err)
		}
		p.checkFailed(t)
	}
}

func TestAnyOwnerAndTimeIsKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	far := time.Unix(1<<33, 5)
	_, at := unpacked(t,
		with(file("a", "x"), func(h *tar.Header) { h.Uid, h.Gid, h.Mode, h.ModTime = highestID, highestID, 0o6755, time.Unix(-5, 5) }),
		with(dir("d"), func(h *tar.Header) { h.Uid, h.Gid, h.Mode = 1000, 1001, 0; h.ModTime = far }),
		with(file("d/a", "x"), func(h *tar.Header) { h.Uid, h.ModTime = 1000, time.Unix(1<<62, 0) }),
		with(symlink("l", "/"), func(h *tar.Header) { h.Uid = 1000 }),
	)
	stat := statOf(t, filepath.Join(at, "a"))
	if stat.Uid != highestID || stat.Gid != highestID || stat.Mode != unix.S_IFREG|0o6755 || stat.Mtim.Sec != -5 || stat.Mtim.Nsec != 5 {
		t.Errorf("the file is %+v", stat)
	}
	if stat := statOf(t, filepath.Join(at, "d")); stat.Uid != 1000 || stat.Gid != 1001 || stat.Mode != unix.S_IFDIR || stat.Mtim.Sec != 1<<33 {
		t.Errorf("the directory is %+v", stat)
	}
	if stat := statOf(t, filepath.Join(at, "l")); stat.Uid != 1000 {
		t.Errorf("the link is %+v", stat)
	}
}

func TestZerosBecomeHoles(t *testing.T) {
	const size = 1 << 30
	p := placeOf(t, nil)
	from, to := io.Pipe()
	go func() {
		writer := tar.NewWriter(to)
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: size, Mode: 0o600, Uid: os.Geteuid(), Gid: os.Getegid()}
		err := writer.WriteHeader(header)
		block := make([]byte, 1<<20)
		for at := 0; at < size && err == nil; at += len(block) {
			clear(block)
			if at == size/2 {
				block[100_000] = 1
			}
			_, err = writer.Write(block)
		}
		to.CloseWithError(errors.Join(err, writer.Close()))
	}()
	must(t, os.Mkdir(p.directory, 0o700))
	if _, err := unpackFrom(from, p.directory); err != nil {
		t.Fatal(err)
	}
	stat := statOf(t, filepath.Join(p.directory, "a"))
	if stat.Size != size || stat.Blocks*512 > 1<<20 {
		t.Errorf("the file has %d bytes, %d on the disk", stat.Size, stat.Blocks*512)
	}
	opened, err := os.Open(filepath.Join(p.directory, "a"))
	must(t, err)
	defer func() { _ = opened.Close() }()
	read := make([]byte, 3)
	if _, err := opened.ReadAt(read, size/2+99_999); err != nil || !bytes.Equal(read, []byte{0, 1, 0}) {
		t.Errorf("the content is %v: %v", read, err)
	}
}

func TestManySmallFilesLeaveNoDescriptorOpen(t *testing.T) {
	const most = 10_000
	entries := make([]entry, 0, most+most/1000)
	for index := range most {
		if index%1000 == 0 {
			entries = append(entries, dir(fmt.Sprint("d", index/1000)))
		}
		entries = append(entries, file(fmt.Sprintf("d%d/%d", index/1000, index), "x"))
	}
	layer := layerOf(t, entries...)
	p := placeOf(t, nil)
	must(t, os.Mkdir(p.directory, 0o700))
	before := descriptors(t)
	found, err := unpackFrom(bytes.NewReader(layer), p.directory)
	if err != nil || found.Entries != int64(len(entries)) {
		t.Errorf("the layer has %+v: %v", found, err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestOneOfSeveralProcessesUnpacksALayer(t *testing.T) {
	p := placeOf(t, layerOf(t, file("a", strings.Repeat("x", 1<<20)), file("b", "")))
	var group sync.WaitGroup
	var lock sync.Mutex
	existed := 0
	for range 8 {
		group.Go(func() {
			found, err := provide(p.file, p.directory)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				t.Error(err)
			}
			if found.Existed {
				existed++
			}
		})
	}
	group.Wait()
	if existed != 7 {
		t.Errorf("%d of 8 found the layer", existed)
	}
}

func TestALayerIsDroppedWithItsDraftAndLockUnlessAProcessUsesIt(t *testing.T) {
	p := placeOf(t, layerOf(t, file("a", "a")))
	_, err := provide(p.file, p.directory)
	must(t, err)
	must(t, os.Mkdir(p.directory+".draft", 0o700))
	isDropped := func(unusedSince time.Time) bool {
		t.Helper()
		found, err := drop(p.directory, unusedSince)
		must(t, err)
		_, err = os.Lstat(filepath.Join(p.directory, "a"))
		if found.Dropped != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("dropped: %v, but the layer: %v", found.Dropped, err)
		}
		return found.Dropped
	}
	if isDropped(time.Now().Add(-time.Minute)) {
		t.Error("a layer that was used now is dropped")
	}
	lock, err := lockOf(p.directory, unix.LOCK_EX)
	must(t, err)
	if isDropped(time.Now().Add(time.Minute)) {
		t.Error("a layer that a process has locked is dropped")
	}
	must(t, lock.Close())
	if !isDropped(time.Now().Add(time.Minute)) {
		t.Error("an unused layer is not dropped")
	}
	left, err := filepath.Glob(p.directory + "*")
	must(t, err)
	if !slices.Equal(left, []string{p.directory + ".draft.dropped", p.directory + ".dropped"}) {
		t.Errorf("left: %v", left)
	}
}

func TestALayerIsNotDroppedThroughALinkOrOverAnything(t *testing.T) {
	for _, name := range []string{".dropped", ".draft.dropped"} {
		p := placeOf(t, layerOf(t, file("a", "a")))
		_, err := provide(p.file, p.directory)
		must(t, err)
		must(t, os.Mkdir(p.directory+".draft", 0o700))
		must(t, os.Symlink(p.outside, p.directory+name))
		_, err = drop(p.directory, time.Now().Add(time.Minute))
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s is a link: %v", name, err)
		}
		p.checkOutside(t)
	}
}

// A cell uses an unpacked layer without its lock: it renews the time of the lock, and then looks for the layer.
func TestALayerThatIsUsedWhileItIsDroppedStays(t *testing.T) {
	p := placeOf(t, layerOf(t, file("a", "a")))
	kept := 0
	for range 300 {
		_, err := provide(p.file, p.directory)
		must(t, err)
		past := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(p.directory+".lock", past, past))
		var group sync.WaitGroup
		hasLayer := false
		group.Go(func() {
			now := time.Now()
			if os.Chtimes(p.directory+".lock", now, now) == nil {
				_, err := os.Lstat(p.directory)
				hasLayer = err == nil
			}
		})
		found, err := drop(p.directory, past.Add(time.Minute))
		must(t, err)
		group.Wait()
		if hasLayer && found.Dropped {
			t.Fatal("a layer that is used was dropped")
		}
		if hasLayer {
			kept++
		}
		must(t, os.RemoveAll(p.directory+".dropped"))
	}
	t.Logf("kept %d times", kept)
}

func TestALockThatIsNotAFileIsAnErrorAndLeadsNowhere(t *testing.T) {
	for title, put := range map[string]func(path, outside string) error{
		"a link to nothing": func(path, outside string) error { return os.Symlink(filepath.Join(outside, "new"), path) },
		"a link to a file":  func(path, outside string) error { return os.Symlink(filepath.Join(outside, "secret"), path) },
		"a link to itself":  func(path, _ string) error { return os.Symlink(path, path) },
		"a directory":       func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a pipe":            func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(title, func(t *testing.T) {
			p := placeOf(t, layerOf(t, file("a", "a")))
			must(t, put(p.directory+".lock", p.outside))
			failed := make(chan error, 2)
			go func() {
				_, err := drop(p.directory, time.Now().Add(time.Hour))
				failed <- err
				_, err = provide(p.file, p.directory)
				failed <- err
			}()
			for range 2 {
				select {
				case err := <-failed:
					if err == nil || isDamage(err) {
						t.Errorf("the error is %v", err)
					}
				case <-time.After(10 * time.Second):
					t.Fatal("it does not end")
				}
			}
			p.checkOutside(t)
			p.checkFailed(t)
		})
	}
}

func TestALayerIsWholeOrAbsentWhileProcessesUnpackAndDropIt(t *testing.T) {
	p := placeOf(t, layerOf(t, file("a", strings.Repeat("x", 1<<20)), file("b", "b")))
	var unpacking sync.WaitGroup
	var unpacked atomic.Int32
	for range 8 {
		unpacking.Go(func() {
			for range 20 {
				found, err := provide(p.file, p.directory)
				if err != nil {
					t.Error(err)
				}
				if !found.Existed {
					unpacked.Add(1)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { unpacking.Wait(); close(ended) }()
	var dropped int32
	for isEnded := false; !isEnded; {
		select {
		case <-ended:
			isEnded = true
		default:
		}
		found, err := drop(p.directory, time.Now().Add(time.Hour))
		must(t, err)
		if found.Dropped {
			dropped++
		}
		must(t, os.RemoveAll(p.directory+".dropped"))
	}
	_, err := provide(p.file, p.directory)
	must(t, err)
	stat, err := os.Lstat(filepath.Join(p.directory, "a"))
	must(t, err)
	if _, err := os.Lstat(filepath.Join(p.directory, "b")); err != nil || stat.Size() != 1<<20 {
		t.Errorf("%d bytes, %v", stat.Size(), err)
	}
	if unpacked.Load() > dropped {
		t.Errorf("unpacked %d times, but dropped %d times", unpacked.Load(), dropped)
	}
}

func TestAKilledProcessIsReplacedByTheNext(t *testing.T) {
	p := placeOf(t, nil)
	must(t, os.Remove(p.file))
	must(t, unix.Mkfifo(p.file, 0o600))
	self, err := os.Executable()
	must(t, err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), "RAMET_TEST_UNPACK="+p.file, "RAMET_TEST_DIRECTORY="+p.directory)
	must(t, command.Start())
	feed, err := os.OpenFile(p.file, os.O_WRONLY, 0)
	must(t, err)
	layer := layerOf(t, with(dir("d"), func(h *tar.Header) { h.Mode = 0 }), file("d/a", strings.Repeat("x", 4<<20)))
	_, err = feed.Write(layer[:3<<20])
	must(t, err)
	must(t, command.Process.Kill())
	_ = command.Wait()
	_ = feed.Close()
	if _, err := os.Lstat(p.directory + ".draft/d/a"); err != nil {
		t.Errorf("the killed process left no draft: %v", err)
	}
	must(t, os.Remove(p.file))
	must(t, os.WriteFile(p.file, layerOf(t, file("b", "b")), 0o600))
	found, err := provide(p.file, p.directory)
	if err != nil || found != (result{Entries: 1}) {
		t.Errorf("the next process has %+v: %v", found, err)
	}
	if _, err := os.Lstat(p.directory + "/d"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part of the draft is in the layer: %v", err)
	}
}

func TestADiskThatIsFullOrReadOnlyIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for title, disk := range map[string]struct {
		flags   uintptr
		options string
		errno   unix.Errno
	}{
		"full":             {0, "size=1m", unix.ENOSPC},
		"without an inode": {0, "nr_inodes=4", unix.ENOSPC},
		"read-only":        {unix.MS_RDONLY, "", unix.EROFS},
	} {
		t.Run(title, func(t *testing.T) {
			p := placeOf(t, layerOf(t, file("a", strings.Repeat("x", 4<<20)), file("b", "")))
			cache := filepath.Dir(p.directory)
			if err := unix.Mount("disk", cache, "tmpfs", disk.flags, disk.options); err != nil {
				t.Skipf("mounting a file system is not permitted here: %v", err)
			}
			defer func() { _ = unix.Unmount(cache, unix.MNT_DETACH) }()
			// The cell finds the cause by this number.
			if _, err := provide(p.file, p.directory); !errors.Is(err, disk.errno) || isDamage(err) {
				t.Errorf("the error is %v", err)
			}
			if disk.flags != unix.MS_RDONLY {
				p.checkFailed(t)
			}
		})
	}
}
