package envd

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A request that cannot succeed is not answered as a fault of the server, which clients repeat.
func TestStatusOfPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		filepath.Join(dir, "none"):                   http.StatusNotFound,
		filepath.Join(file, "below"):                 http.StatusBadRequest,
		filepath.Join(dir, strings.Repeat("n", 300)): http.StatusBadRequest,
		dir + "/a\x00b":                              http.StatusBadRequest,
		loop:                                         http.StatusBadRequest,
	} {
		_, err := os.Open(path)
		if got := statusOf(err); got != want {
			t.Errorf("statusOf(%v) is %d, not %d", err, got, want)
		}
		if got := uploadStatus(err); got != want {
			t.Errorf("uploadStatus(%v) is %d, not %d", err, got, want)
		}
	}
	for err, want := range map[error]int{
		syscall.EROFS:  http.StatusForbidden,
		syscall.ENOSPC: http.StatusInsufficientStorage,
		syscall.EIO:    http.StatusInternalServerError,
	} {
		if got := uploadStatus(err); got != want {
			t.Errorf("uploadStatus(%v) is %d, not %d", err, got, want)
		}
	}
}
