package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyFilesOfACheckpointAreOpened(t *testing.T) {
	directory := t.TempDir()
	f := &files{Options: Options{Directory: directory}, mayWrite: true}
	for _, path := range []string{"", "/", "..", "../pages.img/..", "report.json", "/etc/passwd", "gcs_opts.json", "pages.img\x00"} {
		if _, err := f.OpenWrite(path); err == nil {
			t.Errorf("%q was opened to write", path)
		}
		if _, err := f.OpenRead(path); err == nil {
			t.Errorf("%q was opened to read", path)
		}
	}
	w, err := f.OpenWrite("/somewhere/else/pages.img")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := os.Stat(filepath.Join(directory, "pages.img")); err != nil {
		t.Error(err)
	}
	if _, err := f.OpenWrite("pages.img"); err == nil {
		t.Error("a file was written twice")
	}
}

func TestNoLinkIsFollowed(t *testing.T) {
	directory, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(directory, "pages.img")); err != nil {
		t.Fatal(err)
	}
	f := &files{Options: Options{Directory: directory}, mayWrite: true}
	if _, err := f.OpenRead("pages.img"); err == nil {
		t.Error("a link was followed to read")
	}
	if _, err := f.OpenWrite("pages.img"); err == nil {
		t.Error("a link was followed to write")
	}
}

func TestARestoreWritesNothing(t *testing.T) {
	f := &files{Options: Options{Directory: t.TempDir()}}
	if _, err := f.OpenWrite("pages.img"); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Error(err)
	}
}

// A sandbox that has taken over its gVisor can register any file. Only that of its own layer is opened by its path.
func TestOnlyTheFileOfTheLayerIsOpened(t *testing.T) {
	layer := t.TempDir()
	f := &files{Options: Options{Directory: t.TempDir(), Layer: layer}}
	own, other := filepath.Join(layer, layerFile+"id"), filepath.Join(t.TempDir(), layerFile+"id")
	for _, path := range []string{own, other, filepath.Join(layer, "file")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{own: true, other: false, filepath.Join(layer, "file"): false} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.below(int32(file.Fd())) >= 0; got != want {
			t.Errorf("%s: %v", path, got)
		}
		file.Close()
	}
}

func TestOptionsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"directory":"/image","layer":"/layer"}`: "",
		`{}`:                       "directory is missing",
		``:                         "unexpected end",
		strings.Repeat(" ", 1<<20): "unexpected end",
	} {
		path := filepath.Join(t.TempDir(), "options")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = readOptions(file)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
