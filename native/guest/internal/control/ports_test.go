package control

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEachCloneUsesOtherPortsThanItsSource(t *testing.T) {
	ports := &Ports{File: filepath.Join(t.TempDir(), "range")}
	for _, step := range []struct{ before, want string }{
		{"16000\t65535\n", "40768 65535"},
		{"40768\t65535\n", "16000 40767"},
		{"16000\t40767\n", "40768 65535"},
		{"20000\t30000\n", "20000\t30000\n"},
	} {
		if err := os.WriteFile(ports.File, []byte(step.before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := ports.Next(); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(ports.File); string(got) != step.want {
			t.Errorf("the range is %q, want %q", got, step.want)
		}
	}
	if err := (&Ports{}).Next(); err != nil {
		t.Error(err)
	}
}
