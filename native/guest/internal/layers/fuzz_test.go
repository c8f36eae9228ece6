package layers

import (
	"bytes"
	"io"
	"path"
	"strings"
	"testing"

	"ramet.dev/native/internal/fuzzcheck"
)

// FuzzBase reads a list and writes the deletion of all that it has: every name must be a path below the root.
func FuzzBase(f *testing.F) {
	f.Add([]byte("1 a\x002 a/b\x00"))
	f.Add([]byte("1 /a\x00"))
	f.Add([]byte("1 a/../../b\x00"))
	f.Add([]byte("1 .wh.\x00"))
	f.Add([]byte("-9223372036854775808 \n\xff\x00"))
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, list []byte) {
		fuzzcheck.Input(t, func() {
			base, err := ReadBase(bytes.NewReader(list))
			if err != nil {
				return
			}
			var layer bytes.Buffer
			if _, err := Write(io.Writer(&layer), base, Options{Root: root, Mounts: []string{"proc"}}); err != nil {
				return
			}
			for _, name := range names(t, layer.Bytes()) {
				if path.IsAbs(name) || path.Clean(name) != name || !strings.HasPrefix(name, whiteout) || strings.Contains(name, "/") {
					t.Errorf("the layer of an empty root has %q", name)
				}
			}
		})
	})
}
