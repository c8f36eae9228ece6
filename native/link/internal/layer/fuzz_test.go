package layer

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ramet.dev/native/internal/fuzzcheck"
)

// FuzzLayer unpacks a layer of one to three entries. None may change what is outside, and no device may appear.
func FuzzLayer(f *testing.F) {
	f.Add("a", "../../outside/secret", byte('2'), "a", "", byte('0'), "x")
	f.Add("a", "../../outside", byte('2'), "a/secret", "", byte('0'), "x")
	f.Add("a", "", byte('5'), "a/.wh.b", "", byte('0'), "")
	f.Add("a", "/etc/passwd", byte('1'), "a/../b", "", byte('3'), "")
	f.Add("a/", "", byte('5'), "a/b", "../../../outside/secret", byte('1'), "")
	f.Add(".wh..wh..opq", "", byte('0'), ".wh...", "", byte('0'), "")
	base := f.TempDir()
	outside := filepath.Join(base, "outside")
	must(f, os.Mkdir(outside, 0o755))
	must(f, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	f.Fuzz(func(t *testing.T, name, target string, kind byte, second, secondTarget string, secondKind byte, content string) {
		var layer bytes.Buffer
		writer := tar.NewWriter(&layer)
		for _, header := range []tar.Header{
			{Name: name, Linkname: target, Typeflag: kind}, {Name: second, Linkname: secondTarget, Typeflag: secondKind},
		} {
			header.Mode, header.Uid, header.Gid = 0o6777, os.Geteuid(), os.Getegid()
			if header.Typeflag == tar.TypeReg {
				header.Size = int64(len(content))
			}
			if writer.WriteHeader(&header) == nil && header.Size > 0 {
				_, _ = writer.Write([]byte(content))
			}
		}
		if writer.Close() != nil {
			return
		}
		fuzzcheck.Input(t, func() { checkContained(t, base, layer.Bytes()) })
	})
}

// FuzzLayerBytes unpacks any bytes.
func FuzzLayerBytes(f *testing.F) {
	f.Add(layerOf(f, file("a", "x"), dir("d"), hardLink("d/b", "a"), symlink("l", "d"), file(".wh.c", "")))
	base := f.TempDir()
	outside := filepath.Join(base, "outside")
	must(f, os.Mkdir(outside, 0o755))
	must(f, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	f.Fuzz(func(t *testing.T, layer []byte) {
		fuzzcheck.Input(t, func() { checkContained(t, base, layer) })
	})
}

func checkContained(t *testing.T, base string, layer []byte) {
	t.Helper()
	// As many levels below as the seeds lead up.
	directory := filepath.Join(base, "cache", "layer")
	must(t, os.MkdirAll(directory, 0o700))
	_, _ = unpackFrom(bytes.NewReader(layer), directory)
	p := place{directory: directory, outside: filepath.Join(base, "outside")}
	p.checkOutside(t)
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 2 {
		t.Errorf("beside the layer are %v: %v", entries, err)
	}
	// The permissions of a directory can forbid to walk it, except to root.
	_ = filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type()&os.ModeDevice != 0 && statOf(t, path).Rdev != 0 {
			t.Errorf("%q is a device", path)
		}
		if err == nil && entry.IsDir() {
			_ = unix.Chmod(path, 0o700)
		}
		return nil
	})
	must(t, os.RemoveAll(directory))
}
