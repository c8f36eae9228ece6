package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"ramet.dev/native/guest/internal/envdtest/filesystempb/filesystempbconnect"
	"ramet.dev/native/guest/internal/envdtest/processpb/processpbconnect"
)

// TestMain runs the guest if the test binary was started as one. Tests call it as the cell and as clients.
func TestMain(m *testing.M) {
	if os.Getenv("RAMET_GUEST_UNDER_TEST") == "1" {
		main()
	}
	os.Exit(m.Run())
}

// guest is a running guest: an ordinary process with loopback addresses.
type guest struct {
	t       *testing.T
	command *exec.Cmd
	dir     string
	control string
	client  string
	output  *transcript
	exited  chan struct{}
}

func startGuest(t *testing.T, arguments ...string) *guest {
	t.Helper()
	return startGuestBy(t, nil, arguments...)
}

// startGuestWithUsers starts a guest that sees this text as /etc/passwd.
func startGuestWithUsers(t *testing.T, passwd string, arguments ...string) *guest {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount another /etc/passwd and run commands as other users")
	}
	file := filepath.Join(t.TempDir(), "passwd")
	must(t, os.WriteFile(file, []byte(passwd), 0o644))
	mount := "mount --make-rprivate / && mount --bind " + file + ` /etc/passwd && exec "$0" "$@"`
	return startGuestBy(t, []string{"unshare", "--mount", "/bin/sh", "-c", mount}, arguments...)
}

// startGuestBy starts a guest with a program that executes its arguments, or directly.
func startGuestBy(t *testing.T, starter []string, arguments ...string) *guest {
	t.Helper()
	controlPort, clientPort := freePort(t), freePort(t)
	g := &guest{
		t:       t,
		dir:     t.TempDir(),
		control: fmt.Sprintf("http://127.0.0.1:%d", controlPort),
		client:  fmt.Sprintf("http://127.0.0.1:%d", clientPort),
		output:  &transcript{},
		exited:  make(chan struct{}),
	}
	if err := os.Mkdir(filepath.Join(g.dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	flags := []string{
		"--listen", "127.0.0.1", "--control-peer", "127.0.0.1", "--cwd", g.dir,
		"--control-port", fmt.Sprint(controlPort), "--client-port", fmt.Sprint(clientPort),
		"--hook-dir", filepath.Join(g.dir, "hooks"), "--state-dir", filepath.Join(g.dir, "state"),
		"--mark-dir", filepath.Join(g.dir, "marks"),
	}
	all := slices.Concat(starter, []string{os.Args[0]}, flags, arguments)
	g.command = exec.Command(all[0], all[1:]...)
	g.command.Env = append(os.Environ(), "RAMET_GUEST_UNDER_TEST=1", "FROM_CONTAINER=yes")
	g.command.Stdout, g.command.Stderr = g.output, g.output
	if err := g.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.command.Wait()
		close(g.exited)
	}()
	t.Cleanup(func() {
		_ = g.command.Process.Kill()
		<-g.exited
	})
	g.untilHealthy()
	return g
}

func (g *guest) untilHealthy() {
	g.t.Helper()
	for range 500 {
		response, err := http.Get(g.client + "/health")
		if err == nil {
			_ = response.Body.Close()
			return
		}
		select {
		case <-g.exited:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	g.t.Fatal("the guest did not respond: " + g.output.String())
}

// init gives the guest an identity, and returns the status and the body of the response.
func (g *guest) init(request map[string]any) (int, map[string]any) {
	g.t.Helper()
	hostname, _ := os.Hostname()
	full := map[string]any{
		"sandboxId": "one", "hostname": hostname, "accessToken": "secret", "environment": map[string]string{},
		"generation": 1, "clone": false, "now": time.Now().Format(time.RFC3339), "hookTimeoutMilliseconds": 2000,
	}
	for key, value := range request {
		full[key] = value
	}
	body, _ := json.Marshal(full)
	response, err := http.Post(g.control+"/init", "application/json", bytes.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		g.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func (g *guest) processes(options ...connect.ClientOption) processpbconnect.ProcessClient {
	return processpbconnect.NewProcessClient(&http.Client{Transport: withToken{"secret", ""}}, g.client, options...)
}

func (g *guest) filesystem(options ...connect.ClientOption) filesystempbconnect.FilesystemClient {
	return filesystempbconnect.NewFilesystemClient(&http.Client{Transport: withToken{"secret", ""}}, g.client, options...)
}

// processesAs returns a client whose calls name a user.
func (g *guest) processesAs(user string) processpbconnect.ProcessClient {
	return processpbconnect.NewProcessClient(&http.Client{Transport: withToken{"secret", user}}, g.client)
}

func (g *guest) http(method, path string, body io.Reader, header ...string) (int, string) {
	g.t.Helper()
	request, err := http.NewRequest(method, g.client+path, body)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		g.t.Errorf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, string(text)
}

// residentKiB returns the guest's resident memory, now and at its peak.
func (g *guest) residentKiB() (now, high int) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", g.command.Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %d", &now)
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d", &high)
	}
	return now, high
}

// transcript collects the guest's output. It can be read while the guest writes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(text)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// ofContainer is the user that Ramet's own tools send for the container's user.
const ofContainer = ":"

// withToken adds the headers that SDKs add to each call. They name a user only if their caller does.
type withToken struct{ token, user string }

func (w withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	request.Header.Set("X-Access-Token", w.token)
	if w.user != "" {
		request.SetBasicAuth(strings.Trim(w.user, ofContainer), "")
	}
	return http.DefaultTransport.RoundTrip(request)
}

// bothCodecs runs a test in protobuf's binary form and in JSON.
func bothCodecs(t *testing.T, run func(t *testing.T, option connect.ClientOption)) {
	t.Run("proto", func(t *testing.T) { run(t, connect.WithClientOptions()) })
	t.Run("json", func(t *testing.T) { run(t, connect.WithProtoJSON()) })
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func writeHook(t *testing.T, g *guest, name, script string) {
	t.Helper()
	text := "#!/bin/sh\n" + strings.TrimSpace(script) + "\n"
	if err := os.WriteFile(filepath.Join(g.dir, "hooks", name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
