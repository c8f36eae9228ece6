package envd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEverythingInNewDirectoriesIsReported(t *testing.T) {
	w := watched(t)
	for i := range 50 {
		dir := fmt.Sprintf("%s/m/a%d/b", w.root, i)
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(dir+"/f", []byte("x"), 0o644))
	}
	must(t, os.WriteFile(w.root+"/last", nil, 0o644))
	events := eventsUntil(t, w, "create last")
	for i := range 50 {
		for _, path := range []string{"m", fmt.Sprintf("m/a%d", i), fmt.Sprintf("m/a%d/b", i), fmt.Sprintf("m/a%d/b/f", i)} {
			if seen := count(events, "create "+path); seen != 1 {
				t.Errorf("%s was reported %d times", path, seen)
			}
		}
		if count(events, fmt.Sprintf("write m/a%d/b/f", i)) == 0 {
			t.Errorf("the write of file %d was not reported", i)
		}
	}
}

func TestContentOfADirectoryThatIsMovedInIsReported(t *testing.T) {
	w := watched(t)
	outside := t.TempDir()
	must(t, os.MkdirAll(outside+"/tree/p/q", 0o755))
	must(t, os.WriteFile(outside+"/tree/p/q/f", []byte("x"), 0o644))
	must(t, os.Rename(outside+"/tree", w.root+"/tree"))
	expect(t, eventsUntil(t, w, "create tree/p/q/f"), "create tree", "create tree/p", "create tree/p/q", "create tree/p/q/f")
	must(t, os.WriteFile(w.root+"/tree/p/q/g", nil, 0o644))
	expect(t, eventsUntil(t, w, "create tree/p/q/g"), "create tree/p/q/g")
}

func TestRenamedDirectoryIsReportedUnderItsNewName(t *testing.T) {
	w := watched(t, "old/sub", "old/kept")
	must(t, os.Rename(w.root+"/old", w.root+"/new"))
	must(t, os.WriteFile(w.root+"/new/sub/f", nil, 0o644))
	expect(t, eventsUntil(t, w, "create new/sub/f"), "rename old", "create new", "create new/sub/f")
	must(t, os.Mkdir(w.root+"/first", 0o755))
	must(t, os.Rename(w.root+"/first", w.root+"/second"))
	must(t, os.WriteFile(w.root+"/second/f", nil, 0o644))
	eventsUntil(t, w, "create second/f")
}

func TestDirectoryThatWasMovedOutIsNotReported(t *testing.T) {
	w := watched(t, "dir/sub", "other")
	outside := t.TempDir()
	must(t, os.Rename(w.root+"/dir", outside+"/dir"))
	must(t, os.WriteFile(outside+"/dir/sub/at-once", nil, 0o644))
	expect(t, eventsUntil(t, w, "rename dir"), "rename dir")
	time.Sleep(4 * renameTime)
	must(t, os.WriteFile(outside+"/dir/later", nil, 0o644))
	must(t, os.WriteFile(outside+"/dir/sub/later", nil, 0o644))
	must(t, os.WriteFile(w.root+"/other/f", nil, 0o644))
	expect(t, eventsUntil(t, w, "create other/f"), "create other/f")
	must(t, os.Rename(outside+"/dir", w.root+"/back"))
	must(t, os.WriteFile(w.root+"/back/sub/f", nil, 0o644))
	eventsUntil(t, w, "create back/sub/f")
}

func TestFileThatReplacesAFoundOneIsReported(t *testing.T) {
	w := watched(t)
	must(t, os.Mkdir(w.root+"/d", 0o755))
	must(t, os.WriteFile(w.root+"/d/f", nil, 0o644))
	eventsUntil(t, w, "create d/f")
	must(t, os.WriteFile(w.root+"/g", nil, 0o644))
	must(t, os.Rename(w.root+"/g", w.root+"/d/f"))
	eventsUntil(t, w, "create d/f")
	must(t, os.Remove(w.root+"/d/f"))
	eventsUntil(t, w, "remove d/f")
	must(t, os.WriteFile(w.root+"/d/f", nil, 0o644))
	eventsUntil(t, w, "create d/f")
}

func TestWatchEndsWithTheReason(t *testing.T) {
	for want, end := range map[string]func(w *watch) error{
		"was removed":      func(w *watch) error { return os.RemoveAll(w.root) },
		"was moved":        func(w *watch) error { return os.Rename(w.root, w.root+"-moved") },
		"events were lost": func(w *watch) error { return w.put(make([]*watchEvent, maxWaitingEvents+1), nil) },
	} {
		w := watched(t)
		failed := end(w)
		for deadline := time.Now().Add(10 * time.Second); failed == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			_, failed = w.take()
		}
		if failed == nil || !strings.Contains(failed.Error(), want) {
			t.Errorf("error %v, want %q", failed, want)
		}
	}
}

// watched returns a recursive watch of a new directory with these subdirectories.
func watched(t *testing.T, dirs ...string) *watch {
	t.Helper()
	root := t.TempDir() + "/root"
	for _, dir := range append(dirs, "") {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	w, err := openWatch(root, true)
	must(t, err)
	t.Cleanup(w.close)
	return w
}

func eventsUntil(t *testing.T, w *watch, last string) []string {
	t.Helper()
	var all []string
	for deadline := time.After(10 * time.Second); ; {
		events, err := w.take()
		must(t, err)
		for _, event := range events {
			name, err := event.Type.MarshalJSON()
			must(t, err)
			kind := strings.ToLower(strings.Trim(string(name), `"`))
			all = append(all, strings.TrimPrefix(kind, "event_type_")+" "+event.Name)
		}
		if slices.Contains(all, last) {
			return all
		}
		select {
		case <-w.changed:
		case <-deadline:
			t.Fatalf("no %q in %q", last, all)
		}
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func count(all []string, one string) (n int) {
	for _, text := range all {
		if text == one {
			n++
		}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
