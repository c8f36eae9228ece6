package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// layerPrefix is how gVisor names the file with the files that the sandbox has written (gVisor's pkg/fsutil/fsutil.go).
const layerPrefix = ".gvisor.filestore."

// hideLayer deletes that file from the root of the sandbox, in which programs would read and copy it. gVisor hides it when a sandbox
// boots, and not after a restore. The deletion is one more entry of the layer: the file itself stays.
func hideLayer(root string) error {
	// After a restore gVisor lists a directory as it was, until something in it changes.
	marker, err := os.MkdirTemp(root, ".ramet-")
	if errors.Is(err, syscall.EROFS) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove(marker); err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), layerPrefix) {
			err = errors.Join(err, os.Remove(filepath.Join(root, entry.Name())))
		}
	}
	return err
}
