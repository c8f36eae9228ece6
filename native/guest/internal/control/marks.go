package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"ramet.dev/native/guest/internal/identity"
)

// writeMarks writes the variables of E2B into hidden files of the same names, where programs of E2B's images look for them. It
// removes those that this sandbox does not have: a clone can have another creator than its source.
func writeMarks(dir string, environment map[string]string) error {
	var failed error
	for _, mark := range identity.Marks {
		failed = errors.Join(failed, writeMark(filepath.Join(dir, "."+mark), environment[mark]))
	}
	return failed
}

func writeMark(path, value string) error {
	if value == "" {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return rewrite(path, []byte(value))
}
