package control

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ramet.dev/native/internal/fuzzcheck"
)

// FuzzInit reads the body of /init. It does not apply it: that would change the host name of the machine that runs the test.
func FuzzInit(f *testing.F) {
	for _, seed := range []string{
		`{"sandboxId":"a","hostname":"a","accessToken":"t","generation":1,"environment":{"A":"b"},"now":"2026-01-01T00:00:00Z"}`,
		`{"sandboxId":"a","hostname":"a b","accessToken":"t","generation":1}`, `{"hookTimeoutMilliseconds":-1}`,
		`{"sandboxId":"a","hostname":"a","accessToken":"t","generation":9223372036854775807,"hookTimeoutMilliseconds":9223372036854775807}`,
		`{"sandboxId":"a","hostname":"a","accessToken":"t","generation":1,"limits":{"memoryBytes":1,"cpuMillis":-1}}`,
		`null`, `[]`, `{"generation":1e3}`, `{"environment":{"A":null}}`,
	} {
		f.Add([]byte(seed))
	}
	hosts := filepath.Join(f.TempDir(), "hosts")
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzzcheck.Input(t, func() {
			request, err := readInit(bytes.NewReader(body))
			if err != nil {
				return
			}
			_ = checkClock(request.Now)
			if limits := request.identity().Limits; limits.MemoryBytes < 0 || limits.CPUMillis < 0 {
				t.Errorf("the limits are %+v", limits)
			}
			if timeout := request.hookTimeout(); timeout <= 0 {
				t.Errorf("the time limit of a hook is %s", timeout)
			}
			checkHosts(t, hosts, request.Hostname)
		})
	})
}

// checkHosts fails if a host name adds anything but one line.
func checkHosts(t *testing.T, path, name string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("127.0.0.1 localhost"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := setHosts(path, name); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "127.0.0.1 localhost\n" + sandboxAddress + "\t" + name + "\t" + hostsMark + "\n"; string(text) != want {
		t.Errorf("the host name %q makes %q", name, text)
	}
}

// FuzzHosts changes a file that the image or the sandbox wrote.
func FuzzHosts(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n169.254.17.2\told\t# ramet\n"))
	f.Add([]byte("# ramet"))
	f.Add([]byte("\x00\r\n\r# ramet\r\n"))
	path := filepath.Join(f.TempDir(), "hosts")
	f.Fuzz(func(t *testing.T, old []byte) {
		fuzzcheck.Input(t, func() {
			if err := os.WriteFile(path, old, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := setHosts(path, "name"); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if line := "\n" + sandboxAddress + "\tname\t" + hostsMark + "\n"; strings.Count("\n"+string(text), line) != 1 {
				t.Errorf("%q became %q", old, text)
			}
		})
	})
}
