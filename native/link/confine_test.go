package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRightsAfterSetup(t *testing.T) {
	w := newWorld(t, map[string]any{"egress": map[string]any{"default": "allow"}})
	expect := map[string]string{"CapInh": "0", "CapEff": "0", "CapAmb": "0", "CapPrm": "1000", "NoNewPrivs": "1", "Seccomp": "2"}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", w.pid))
	must(t, err)
	if len(threads) == 0 {
		t.Fatal("link has no threads")
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			if want, found := expect[name]; found && strings.TrimLeft(value, "0") != strings.TrimLeft(want, "0") {
				t.Errorf("%s: %s is %s, not %s", path, name, value, want)
			}
		}
	}
	// A replacement of the sandbox needs the interface again.
	w.do("prepare", nil)
}
