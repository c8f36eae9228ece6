package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"ramet.dev/native/guest/internal/envdtest/processpb"
)

func TestCloneTakesItsIdentityAndRunsItsHooksOnce(t *testing.T) {
	g := startGuest(t)
	writeHook(t, g, "20-second", `echo second`)
	writeHook(t, g, "10-first", `echo $RAMET_SANDBOX_ID $RAMET_GENERATION $RAMET_CLONE $NEW; cat `+g.dir+`/state/generation; echo x >> `+g.dir+`/ran; exit 4`)
	must(t, os.WriteFile(filepath.Join(g.dir, "hooks", "README"), []byte("no program"), 0o644))
	g.init(nil)
	if _, err := os.Stat(g.dir + "/ran"); err == nil {
		t.Error("a hook ran at the first start")
	}
	request := map[string]any{"sandboxId": "two", "generation": 2, "clone": true, "accessToken": "other", "environment": map[string]string{"NEW": "env"}}
	status, answer := g.init(request)
	hooks, _ := answer["hooks"].([]any)
	if status != 200 || len(hooks) != 2 {
		t.Fatal(status, answer)
	}
	first, _ := hooks[0].(map[string]any)
	if first["path"] != g.dir+"/hooks/10-first" || first["exitCode"] != 4.0 || first["output"] != "two 2 1 env\n2\n" {
		t.Error(first)
	}
	again, repeated := g.init(request)
	if again != 200 || fmt.Sprint(repeated) != fmt.Sprint(answer) {
		t.Error(again, repeated)
	}
	if ran, _ := os.ReadFile(g.dir + "/ran"); string(ran) != "x\n" {
		t.Errorf("the hook ran %q", ran)
	}
	for _, late := range []map[string]any{{"generation": 1}, {"generation": 2, "sandboxId": "three"}} {
		if status, answer := g.init(late); status != 409 || answer["code"] != "Conflict" {
			t.Error(status, answer)
		}
	}
	if status, _ := g.http("GET", "/envs", nil, "X-Access-Token", "secret"); status != 401 {
		t.Errorf("the old token: %d", status)
	}
	if status, text := g.http("GET", "/envs", nil, "X-Access-Token", "other"); status != 200 || !strings.Contains(text, `"NEW":"env"`) {
		t.Error(status, text)
	}
	identity, _ := os.ReadFile(g.dir + "/state/identity.json")
	if !strings.Contains(string(identity), `"sandboxId":"two"`) || strings.Contains(string(identity), "other") {
		t.Errorf("identity %s", identity)
	}
}

func TestEntrypointStartsWithTheIdentityOrAfterATimeout(t *testing.T) {
	for name, request := range map[string]map[string]any{
		"hi": {"environment": map[string]string{"GREETING": "hi"}},
		"":   nil,
	} {
		out := filepath.Join(t.TempDir(), "out")
		g := startGuest(t, "--", "/bin/sh", "-c", `echo "$GREETING" >`+out+`; sleep 2`)
		if request != nil {
			g.init(request)
		}
		var text []byte
		for deadline := time.Now().Add(5 * time.Second); len(text) == 0 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			text, _ = os.ReadFile(out)
		}
		if string(text) != name+"\n" {
			t.Errorf("GREETING is %q, want %q", text, name)
		}
	}
}

func TestHookThatHangsIsKilled(t *testing.T) {
	g := startGuest(t)
	writeHook(t, g, "hang", "echo waiting; sleep 600")
	began := time.Now()
	_, answer := g.init(map[string]any{"clone": true, "hookTimeoutMilliseconds": 200})
	hooks, _ := answer["hooks"].([]any)
	hook, _ := hooks[0].(map[string]any)
	if hook["timedOut"] != true || hook["exitCode"] != 137.0 || hook["output"] != "waiting\n" || time.Since(began) > 5*time.Second {
		t.Error(hook, time.Since(began))
	}
}

func TestHookEndsWithItsProcessAndItsOutputWithTheLastWriter(t *testing.T) {
	g := startGuest(t)
	writeHook(t, g, "10-late", "(sleep 0.4; echo late) & echo first")
	writeHook(t, g, "20-daemon", "sleep 600 & echo started")
	began := time.Now()
	_, answer := g.init(map[string]any{"clone": true})
	hooks, _ := answer["hooks"].([]any)
	late, _ := hooks[0].(map[string]any)
	daemon, _ := hooks[1].(map[string]any)
	if late["output"] != "first\nlate\n" || late["outputOpen"] != nil {
		t.Error(late)
	}
	if daemon["output"] != "started\n" || daemon["outputOpen"] != true || daemon["exitCode"] != 0.0 || daemon["timedOut"] != nil {
		t.Error(daemon)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestCommandKeepsRunningWhenItsSandboxBecomesAClone(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	client := g.processes()
	stream, err := client.Start(t.Context(), connect.NewRequest(&processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "echo one; read x; echo two"}}, Tag: ptr("on"),
	}))
	must(t, err)
	g.init(map[string]any{"generation": 2, "clone": true})
	for stream.Receive() {
	}
	if stream.Err() == nil {
		t.Error("the connection from before the restore was not reset")
	}
	listed, err := client.List(t.Context(), connect.NewRequest(&processpb.ListRequest{}))
	must(t, err)
	if len(listed.Msg.GetProcesses()) != 1 || listed.Msg.GetProcesses()[0].GetTag() != "on" {
		t.Error(listed.Msg)
	}
}

func TestControlPortAcceptsOnlyTheCell(t *testing.T) {
	g := startGuest(t, "--control-peer", "169.254.17.1")
	response, err := http.Get(g.control + "/health")
	if err == nil {
		t.Errorf("it responded %s", response.Status)
	}
	if status, _ := g.http("GET", "/health", nil); status != 204 {
		t.Errorf("clients: %d", status)
	}
}

func TestInvalidIdentityIsRejected(t *testing.T) {
	g := startGuest(t)
	for field, value := range map[string]any{"sandboxId": "", "hostname": "a b", "accessToken": "", "generation": 0, "environment": 3} {
		if status, answer := g.init(map[string]any{field: value}); status != 400 || answer["code"] != "InvalidArgument" {
			t.Error(field, status, answer)
		}
	}
}

func TestControlPortReportsTheEntrypointsExitCode(t *testing.T) {
	g := startGuest(t, "--", "/bin/sh", "-c", "echo up; read x < "+"/dev/null; sleep 0.3; exit 9")
	response, err := http.Get(g.control + "/exit")
	must(t, err)
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if strings.TrimSpace(string(body)) != `{"exitCode":9}` {
		t.Errorf("exit %s", body)
	}
	response, err = http.Get(g.control + "/health")
	must(t, err)
	body, _ = io.ReadAll(response.Body)
	_ = response.Body.Close()
	if !strings.Contains(string(body), `"entrypoint":{"state":"exited","exitCode":9}`) {
		t.Errorf("health %s", body)
	}
}

func TestGuestExitsWithItsEntrypoint(t *testing.T) {
	g := startGuest(t, "--exit-with-entrypoint", "--", "/bin/sh", "-c", "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done")
	eventually(t, "the entrypoint is up", func() bool { return strings.Contains(g.output.String(), "up") })
	must(t, g.command.Process.Signal(syscall.SIGTERM))
	<-g.exited
	if g.command.ProcessState.ExitCode() != 5 || !strings.Contains(g.output.String(), "bye") {
		t.Error(g.command.ProcessState, g.output.String())
	}
}

func TestGuestReportsAMissingEntrypoint(t *testing.T) {
	g := startGuest(t, "--exit-with-entrypoint", "--", "no-such-program")
	<-g.exited
	if g.command.ProcessState.ExitCode() != 127 || !strings.Contains(g.output.String(), "no-such-program") {
		t.Error(g.command.ProcessState, g.output.String())
	}
}

func TestMissingWorkingDirectoryIsCreated(t *testing.T) {
	deep := filepath.Join(t.TempDir(), "srv", "deep")
	g := startGuest(t, "--cwd", deep, "--", "/bin/sh", "-c", "pwd; sleep 5")
	g.init(nil)
	eventually(t, "the entrypoint runs", func() bool { return g.output.String() == deep+"\n" })
	got := runCommand(t, g.processes(), &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/bin/pwd"}})
	if info, err := os.Stat(deep); got.stdout != deep+"\n" || err != nil || info.Mode().Perm() != 0o755 {
		t.Error(got.stdout, info, err)
	}
}

func TestControlPortReportsWhyTheEntrypointCannotStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for want, arguments := range map[string][]string{
		`"exitCode":126,"message":"starting the entrypoint failed: creating the working directory failed: mkdir ` + file: {"--cwd", file + "/deep", "--", "/bin/true"},
		`"exitCode":127,"message":"starting the entrypoint failed: stat /no/such/program`:                                {"--", "/no/such/program"},
	} {
		g := startGuest(t, arguments...)
		response, err := http.Get(g.control + "/exit")
		must(t, err)
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("exit %s, want %s", body, want)
		}
	}
}

func TestVariablesWithWhichNothingCanStartAreRefused(t *testing.T) {
	g := startGuest(t)
	for want, variables := range map[string]map[string]string{
		`the variable \"X\" has a NUL`:                          {"X": "a\x00b"},
		`the name of the variable \"A=B\"`:                      {"A=B": "v"},
		`the name of the variable \"\"`:                         {"": "v"},
		`the variable \"BIG\" has 131069 bytes; 131067 are the`: {"BIG": strings.Repeat("x", 131069)},
	} {
		if status, answer := g.init(map[string]any{"environment": variables}); status != 400 || !strings.Contains(quoted(answer["message"]), want) {
			t.Error(status, quoted(answer["message"]))
		}
		body, _ := json.Marshal(map[string]any{"envVars": variables})
		if status, text := g.http("POST", "/init", bytes.NewReader(body)); status != 400 || !strings.Contains(text, want) {
			t.Error(status, text)
		}
	}
	largest := map[string]string{"BIG": strings.Repeat("x", 131067)}
	if status, answer := g.init(map[string]any{"environment": largest}); status != 200 {
		t.Error(status, answer)
	}
	got := runCommand(t, g.processes(), &processpb.StartRequest{Process: &processpb.ProcessConfig{
		Cmd: "/bin/sh", Args: []string{"-c", "printf %s $BIG | wc -c"}}})
	if strings.TrimSpace(got.stdout) != "131067" {
		t.Errorf("the largest variable has %s bytes", got.stdout)
	}
}

func quoted(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

func TestGuestSurvivesMalformedRequests(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	noise := make([]byte, 64<<10)
	_, _ = rand.Read(noise)
	for _, path := range []string{"/process.Process/Start", "/process.Process/List", "/process.Process/StreamInput", "/filesystem.Filesystem/Stat", "/init", "/files?path=" + g.dir + "/f", "/nowhere"} {
		for _, kind := range []string{"application/json", "application/proto", "application/connect+json", "application/connect+proto", "multipart/form-data; boundary=x", "text/plain", ""} {
			for _, body := range [][]byte{noise, nil, {0, 0, 0, 0, 200}, {0, 255, 255, 255, 255}, []byte("{"), bytes.Repeat([]byte{0x0a, 0x80}, 1000)} {
				status, text := g.http("POST", path, bytes.NewReader(body), "Content-Type", kind, "X-Access-Token", "secret")
				if status >= 500 {
					t.Errorf("%s %s %.20q: %d %s", path, kind, body, status, text)
				}
			}
		}
	}
	if status, _ := g.http("GET", "/health", nil); status != 204 {
		t.Errorf("health: %d", status)
	}
}

func TestGuestUsesLittleMemory(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	runCommand(t, g.processes(), &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/bin/true"}})
	response, err := http.Post(g.control+"/quiesce", "application/json", nil)
	must(t, err)
	_ = response.Body.Close()
	// The binary under test contains the test libraries, so this is an upper bound.
	if now, _ := g.residentKiB(); now > 24<<10 {
		t.Errorf("the guest uses %d KiB", now)
	}
}
