package control

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHideLayerDeletesNothingElse(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{layerPrefix + "a-1", layerPrefix + "b-2", ".gvisor", "data"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := hideLayer(root); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".gvisor" || entries[1].Name() != "data" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestZerosAreCounted(t *testing.T) {
	zeros := make([]byte, 256<<10)
	for title, test := range map[string]struct {
		counts  bool
		written string
	}{
		"counted": {true, "\x00\x00\x00\x02ab\x80\x08\x00\x00\x00\x00\x00\x02\x00c\xc0\x00\x00\x00\x80\x04\x00\x00"},
		"sent":    {false, ""},
	} {
		t.Run(title, func(t *testing.T) {
			var to bytes.Buffer
			out := &runs{to: &to, counts: test.counts}
			all := append([][]byte{[]byte("ab"), zeros, zeros, []byte("\x00c")}, slices.Repeat([][]byte{zeros}, 4097)...)
			if !test.counts {
				all = all[:4]
				test.written = string(slices.Concat(all...))
			}
			for _, data := range all {
				if size, err := out.Write(data); err != nil || size != len(data) {
					t.Fatalf("wrote %d bytes: %v", size, err)
				}
			}
			if err := out.flush(); err != nil || to.String() != test.written {
				t.Errorf("wrote %.100q: %v", to.String(), err)
			}
		})
	}
}
