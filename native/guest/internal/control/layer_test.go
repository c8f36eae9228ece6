package control

import (
	"os"
	"path/filepath"
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
