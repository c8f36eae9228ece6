package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPartsBecomeOneFile(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	dir := filepath.Join(g.dir, "parts")
	must(t, os.Mkdir(dir, 0o755))
	for name, content := range map[string]string{"one": "abc", "two": "def", "kept": "old"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	compose := func(destination string, parts ...string) (int, string) {
		paths := make([]string, len(parts))
		for i, part := range parts {
			paths[i] = filepath.Join(dir, part)
		}
		body, _ := json.Marshal(map[string]any{"source_paths": paths, "destination": filepath.Join(dir, destination)})
		return g.http("POST", "/files/compose", bytes.NewReader(body), "X-Access-Token", "secret")
	}
	for want, parts := range map[int][]string{400: {"one", "pipe"}, 404: {"one", "missing"}} {
		if status, text := compose("kept", parts...); status != want {
			t.Errorf("%v: %d %s", parts, status, text)
		}
	}
	must(t, os.Symlink("one", filepath.Join(dir, "link")))
	for _, parts := range [][]string{{"one", "two"}, {"link", "two"}} {
		if status, text := compose("one", parts...); status != 400 {
			t.Errorf("%v: %d %s", parts, status, text)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "link")))
	if status, text := g.http("POST", "/files/compose", strings.NewReader(`{"destination":"/x"}`), "X-Access-Token", "secret"); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := g.http("POST", "/files/compose", strings.NewReader(`{}`)); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "kept")); string(got) != "old" {
		t.Errorf("a failed request changed the file to %q", got)
	}
	status, text := compose("kept", "one", "two")
	if want := fmt.Sprintf(`{"path":%q,"name":"kept","type":"file"}`, filepath.Join(dir, "kept")); status != 200 || strings.TrimSpace(text) != want {
		t.Errorf("%d %s", status, text)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "kept")); string(got) != "abcdef" {
		t.Errorf("%q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}
