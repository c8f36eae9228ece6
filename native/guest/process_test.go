package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"ramet.dev/native/guest/internal/envdtest/processpb"
	"ramet.dev/native/guest/internal/envdtest/processpb/processpbconnect"
)

func TestCallerGetsTheOutputAndTheEndOfACommand(t *testing.T) {
	g := startGuest(t)
	g.init(map[string]any{"environment": map[string]string{"WHO": "sandbox", "BOTH": "sandbox"}})
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		got := runCommand(t, g.processes(option), &processpb.StartRequest{
			Process: &processpb.ProcessConfig{
				Cmd:  "/bin/sh",
				Args: []string{"-c", "echo $WHO $BOTH $FROM_CONTAINER; echo oops >&2; pwd; exit 7"},
				Envs: map[string]string{"BOTH": "caller"},
				Cwd:  ptr("/usr"),
			},
			Stdin: ptr(false),
		})
		if got.stdout != "sandbox caller yes\n/usr\n" || got.stderr != "oops\n" {
			t.Errorf("stdout %q, stderr %q", got.stdout, got.stderr)
		}
		if got.end.GetExitCode() != 7 || !got.end.GetExited() || got.end.GetStatus() != "exit status 7" {
			t.Errorf("end %v", got.end)
		}
	})
}

func TestUnknownUserIsNamedInTheError(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		request := connect.NewRequest(&processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/bin/true"}})
		request.Header().Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("stranger:")))
		stream, err := g.processes(option).Start(t.Context(), request)
		if err == nil {
			stream.Receive()
			err = stream.Err()
		}
		var failure *connect.Error
		// The code is envd's. The detail distinguishes this error from a wrong token.
		if !errors.As(err, &failure) || failure.Code() != connect.CodeUnauthenticated {
			t.Fatalf("error %v", err)
		}
		if !strings.Contains(failure.Message(), `"stranger"`) {
			t.Errorf("message %q", failure.Message())
		}
		if details := failure.Details(); len(details) != 1 || details[0].Type() != "ramet.dev.v1.UnknownUser" {
			t.Errorf("details %v", details)
		}
	})
}

func TestCommandReadsItsInput(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		client := g.processes(option)
		tag := "reader-" + t.Name()
		named := &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Tag{Tag: tag}}
		stream := start(t, client, &processpb.StartRequest{
			Process: &processpb.ProcessConfig{Cmd: "/bin/cat"}, Stdin: ptr(true), Tag: &tag,
		})
		input := func(text string) *processpb.ProcessInput {
			return &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte(text)}}
		}
		ctx := t.Context()
		if _, err := client.SendInput(ctx, connect.NewRequest(&processpb.SendInputRequest{Process: named, Input: input("one\n")})); err != nil {
			t.Fatal(err)
		}
		typing := client.StreamInput(ctx)
		must(t, typing.Send(&processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Start{
			Start: &processpb.StreamInputRequest_StartEvent{Process: named}}}))
		must(t, typing.Send(&processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Data{
			Data: &processpb.StreamInputRequest_DataEvent{Input: input("two\n")}}}))
		must(t, typing.Send(&processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Keepalive{
			Keepalive: &processpb.StreamInputRequest_KeepAlive{}}}))
		_, err := typing.CloseAndReceive()
		must(t, err)
		_, err = client.CloseStdin(ctx, connect.NewRequest(&processpb.CloseStdinRequest{Process: named}))
		must(t, err)
		got := collect(t, stream)
		if got.stdout != "one\ntwo\n" || got.end.GetExitCode() != 0 {
			t.Errorf("stdout %q, end %v", got.stdout, got.end)
		}
		_, err = client.SendInput(ctx, connect.NewRequest(&processpb.SendInputRequest{Process: named, Input: input("late")}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("input after the end: %v", err)
		}
		deaf := start(t, client, &processpb.StartRequest{
			Process: &processpb.ProcessConfig{Cmd: "/bin/sleep", Args: []string{"100"}}, Stdin: ptr(false),
		})
		without := &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: deaf.pid(t)}}
		_, err = client.CloseStdin(ctx, connect.NewRequest(&processpb.CloseStdinRequest{Process: without}))
		if connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("a command without input: %v", err)
		}
		_, err = client.SendSignal(ctx, connect.NewRequest(&processpb.SendSignalRequest{
			Process: without, Signal: processpb.Signal_SIGNAL_SIGKILL}))
		must(t, err)
	})
}

func TestLargeInputArrivesInOneCall(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		client := g.processes(option)
		stream := start(t, client, &processpb.StartRequest{
			Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "wc -c"}}, Stdin: ptr(true),
		})
		named := &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: stream.pid(t)}}
		send := func(bytes int) error {
			input := &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: make([]byte, bytes)}}
			_, err := client.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: named, Input: input}))
			return err
		}
		must(t, send(6_000_000))
		if err := send(17 << 20); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "send it in parts") {
			t.Errorf("too much input: %v", err)
		}
		_, err := client.CloseStdin(t.Context(), connect.NewRequest(&processpb.CloseStdinRequest{Process: named}))
		must(t, err)
		if got := collect(t, stream); strings.TrimSpace(got.stdout) != "6000000" {
			t.Errorf("the command has read %q bytes", got.stdout)
		}
	})
}

func TestTerminalCanBeResized(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	client := g.processes()
	stream := start(t, client, &processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "stty size; read x; stty size; tty -s && echo terminal"}},
		Pty:     &processpb.PTY{Size: &processpb.PTY_Size{Cols: 100, Rows: 30}},
	})
	pid := stream.pid(t)
	for stream.next(t); !strings.Contains(stream.got.pty, "30 100"); stream.next(t) {
	}
	named := &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: pid}}
	_, err := client.Update(t.Context(), connect.NewRequest(&processpb.UpdateRequest{
		Process: named, Pty: &processpb.PTY{Size: &processpb.PTY_Size{Cols: 120, Rows: 40}},
	}))
	must(t, err)
	_, err = client.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{
		Process: named, Input: &processpb.ProcessInput{Input: &processpb.ProcessInput_Pty{Pty: []byte("go\n")}},
	}))
	must(t, err)
	got := collect(t, stream)
	if !strings.Contains(got.pty, "40 120") || !strings.Contains(got.pty, "terminal") || got.end.GetExitCode() != 0 {
		t.Errorf("terminal printed %q, end %v", got.pty, got.end)
	}
}

func TestReconnectedClientGetsAllOutput(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	client := g.processes()
	ctx, leave := context.WithCancel(t.Context())
	first, err := client.Start(ctx, connect.NewRequest(&processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "echo before; read x; echo after $x; exit 3"}},
		Tag:     ptr("kept"),
	}))
	must(t, err)
	first.Receive()
	leave()
	_ = first.Close()
	named := &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Tag{Tag: "kept"}}
	again := func() *follower {
		stream, err := client.Connect(t.Context(), connect.NewRequest(&processpb.ConnectRequest{Process: named}))
		must(t, err)
		return &follower{receive: func() (*processpb.ProcessEvent, bool, error) {
			ok := stream.Receive()
			return stream.Msg().GetEvent(), ok, stream.Err()
		}}
	}
	second := again()
	for second.next(t); second.got.stdout != "before\n"; second.next(t) {
	}
	_, err = client.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{
		Process: named, Input: &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte("life\n")}},
	}))
	must(t, err)
	for _, got := range []result{collect(t, second), collect(t, again())} {
		if got.stdout != "before\nafter life\n" || got.end.GetExitCode() != 3 {
			t.Errorf("stdout %q, end %v", got.stdout, got.end)
		}
	}
}

func TestInvalidCommandIsRejectedWithAReason(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	for want, config := range map[string]*processpb.ProcessConfig{
		"argument 2 has 131072 bytes; 131071 are the most": {Cmd: "/bin/echo", Args: []string{"a", strings.Repeat("x", 131072)}},
		"the arguments have 2600":                          {Cmd: "/bin/echo", Args: slices.Repeat([]string{strings.Repeat("x", 130000)}, 20)},
		"argument 1 has a NUL":                             {Cmd: "/bin/echo", Args: []string{"a\x00b"}},
		"the command has a NUL":                            {Cmd: "echo\x00b"},
		"the working directory has a NUL":                  {Cmd: "/bin/echo", Cwd: ptr("/tmp\x00x")},
		`the variable "X" has a NUL`:                       {Cmd: "/bin/echo", Envs: map[string]string{"X": "a\x00b"}},
		"no such file":                                     {Cmd: "/no/such/program"},
		"in PATH":                                          {Cmd: "no-such-program"},
		"permission denied":                                {Cmd: "/etc/passwd"},
		"not a directory":                                  {Cmd: "/bin/true", Cwd: ptr("/no/such/directory")},
		"has no command":                                   {},
	} {
		stream, err := g.processes().Start(t.Context(), connect.NewRequest(&processpb.StartRequest{Process: config}))
		must(t, err)
		for stream.Receive() {
		}
		if connect.CodeOf(stream.Err()) != connect.CodeInvalidArgument || !strings.Contains(stream.Err().Error(), want) {
			t.Errorf("%v: %v", config, stream.Err())
		}
	}
}

func TestDeadlineEndsTheCommandAndItsChildren(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	client := g.processes()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	stream, err := client.Start(ctx, connect.NewRequest(&processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "sleep 600 & echo $!; wait"}}, Stdin: ptr(false),
	}))
	must(t, err)
	var child int
	for stream.Receive() {
		if text := stream.Msg().GetEvent().GetData().GetStdout(); len(text) > 0 {
			_, _ = fmt.Sscan(string(text), &child)
		}
	}
	if connect.CodeOf(stream.Err()) != connect.CodeDeadlineExceeded {
		t.Errorf("the stream ended with %v", stream.Err())
	}
	eventually(t, "the child has ended", func() bool { return !alive(child) })
}

// A stopped guest has the clock of a paused sandbox: it continues later than its timers.
func TestPauseDoesNotCount(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := processpbconnect.NewProcessClient(&http.Client{Transport: limitedTo{"3000"}}, g.client)
	stream, err := client.Start(ctx, connect.NewRequest(&processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "while :; do echo beat; sleep 0.1; done"}}, Stdin: ptr(false),
	}))
	must(t, err)
	began := time.Now()
	receiveFor := func(limit time.Duration) {
		for until := time.Now().Add(limit); time.Now().Before(until); {
			if !stream.Receive() {
				t.Fatalf("the command ended after %s: %v", time.Since(began), stream.Err())
			}
		}
	}
	receiveFor(500 * time.Millisecond)
	must(t, g.command.Process.Signal(syscall.SIGSTOP))
	time.Sleep(4 * time.Second)
	must(t, g.command.Process.Signal(syscall.SIGCONT))
	receiveFor(1500 * time.Millisecond)
	for stream.Receive() {
	}
	if took := time.Since(began); connect.CodeOf(stream.Err()) != connect.CodeDeadlineExceeded || took < 6*time.Second || took > 20*time.Second {
		t.Errorf("the command ended after %s: %v", took, stream.Err())
	}
}

// limitedTo adds the time limit of a call in milliseconds, without one of the client itself.
type limitedTo struct{ milliseconds string }

func (l limitedTo) RoundTrip(request *http.Request) (*http.Response, error) {
	request.Header.Set("Connect-Timeout-Ms", l.milliseconds)
	return withToken{"secret", ""}.RoundTrip(request)
}

func TestSignalReachesTheProcessGroup(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	client := g.processes()
	stream := start(t, client, &processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "sleep 600 & echo $!; wait"}},
	})
	pid := stream.pid(t)
	for stream.next(t); stream.got.stdout == ""; stream.next(t) {
	}
	var child int
	_, _ = fmt.Sscan(stream.got.stdout, &child)
	_, err := client.SendSignal(t.Context(), connect.NewRequest(&processpb.SendSignalRequest{
		Process: &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: pid}},
		Signal:  processpb.Signal_SIGNAL_SIGKILL,
	}))
	must(t, err)
	got := collect(t, stream)
	if got.end.GetExitCode() != -1 || got.end.GetExited() || got.end.GetStatus() != "signal: killed" {
		t.Errorf("end %v", got.end)
	}
	eventually(t, "the child has ended", func() bool { return !alive(child) })
	listed, err := client.List(t.Context(), connect.NewRequest(&processpb.ListRequest{}))
	must(t, err)
	if len(listed.Msg.GetProcesses()) != 0 {
		t.Errorf("still listed: %v", listed.Msg)
	}
}

func TestOutputEndsWithItsLastWriter(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	lines := "for i in $(seq 100); do echo line $i; done"
	for script, want := range map[string]int{
		`exec > >(while read -r l; do sleep 0.01; echo "late $l"; done) 2>&1; ` + lines: 100,
		"exec > >(sleep 1.5; cat); " + lines:                                            100,
		"(for i in $(seq 8); do sleep 0.4; echo late; done) & echo started":             9,
		"setsid sh -c 'sleep 2; echo late; exec >&- 2>&-; sleep 600' & echo started":    2,
	} {
		stream := start(t, g.processes(), &processpb.StartRequest{
			Process: &processpb.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-c", script}}, Stdin: ptr(false),
		})
		got := collect(t, stream)
		if seen := strings.Count(got.stdout, "\n"); seen != want || got.end.GetExitCode() != 0 || got.end.Error != nil {
			t.Errorf("%s: %d of %d lines, end %v", script, seen, want, got.end)
		}
		if mark := stream.trailer().Get("Ramet-Output-Open"); mark != "" {
			t.Errorf("%s: marked as open", script)
		}
	}
}

func TestOutputThatASilentChildKeepsOpenIsMarked(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	began := time.Now()
	stream := start(t, g.processes(), &processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "(sleep 1; echo late; sleep 60) & echo started"}},
	})
	got := collect(t, stream)
	if took := time.Since(began); got.stdout != "started\nlate\n" || took < 6*time.Second || took > 15*time.Second {
		t.Errorf("stdout %q after %s", got.stdout, took)
	}
	if got.end.GetExitCode() != 0 || !got.end.GetExited() || !strings.Contains(got.end.GetError(), "keeps its output open") {
		t.Errorf("end %v", got.end)
	}
	if mark := stream.trailer().Get("Ramet-Output-Open"); mark != "true" {
		t.Errorf("mark %q", mark)
	}
}

func TestActiveReaderMissesNothing(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	const size = 24 << 20
	got := runCommand(t, g.processes(), &processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", fmt.Sprintf("head -c %d /dev/zero", size)}},
	})
	if len(got.stdout) != size || got.end.GetExitCode() != 0 {
		t.Errorf("%d bytes of %d, end %v", len(got.stdout), size, got.end)
	}
	if _, high := g.residentKiB(); high > 40<<10 {
		t.Errorf("the guest used %d KiB for it", high)
	}
}

func TestDeadClientDoesNotBlockACommand(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	connection, err := net.Dial("tcp", strings.TrimPrefix(g.client, "http://"))
	must(t, err)
	defer connection.Close()
	done := g.dir + "/done"
	message := fmt.Sprintf(`{"process":{"cmd":"/bin/sh","args":["-c","seq 3000000; touch %s"]},"tag":"loud","stdin":false}`, done)
	envelope := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	_, err = fmt.Fprintf(connection, "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nX-Access-Token: secret\r\n"+
		"Content-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s%s", len(envelope)+len(message), envelope, message)
	must(t, err)
	eventually(t, "the command has ended", func() bool {
		_, err := os.Stat(done)
		return err == nil
	})
	stream, err := g.processes().Connect(t.Context(), connect.NewRequest(&processpb.ConnectRequest{
		Process: &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Tag{Tag: "loud"}},
	}))
	must(t, err)
	got := collect(t, &follower{receive: func() (*processpb.ProcessEvent, bool, error) {
		ok := stream.Receive()
		return stream.Msg().GetEvent(), ok, stream.Err()
	}})
	if !strings.HasSuffix(got.stdout, "\n3000000\n") || len(got.stdout) < 512<<10 {
		t.Errorf("%d bytes kept, ending %q", len(got.stdout), got.stdout[max(0, len(got.stdout)-20):])
	}
	if missed := stream.ResponseTrailer().Get("Ramet-Missed-Bytes"); missed == "" {
		t.Error("the missed output was not reported")
	}
}

func TestManyLinesOfOutput(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	got := runCommand(t, g.processes(), &processpb.StartRequest{Process: &processpb.ProcessConfig{
		Cmd: "/bin/sh", Args: []string{"-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"},
	}})
	if lines := strings.Count(got.stdout, "\n"); lines != 20000 {
		t.Errorf("%d lines", lines)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	got := runCommand(t, g.processes(), &processpb.StartRequest{Process: &processpb.ProcessConfig{
		Cmd: "/bin/sh", Args: []string{"-c", "(sh -c 'echo $$; sleep 0.2' &) ; sleep 0.1"},
	}})
	var orphan int
	_, _ = fmt.Sscan(got.stdout, &orphan)
	if orphan == 0 {
		t.Fatalf("stdout %q", got.stdout)
	}
	eventually(t, "the orphan is reaped", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", orphan))
		return os.IsNotExist(err)
	})
}

// result is the output and the end of a command.
type result struct {
	stdout, stderr, pty string
	end                 *processpb.ProcessEvent_EndEvent
}

// follower reads a command's events.
type follower struct {
	receive func() (*processpb.ProcessEvent, bool, error)
	trailer func() http.Header
	started uint32
	got     result
}

func start(t *testing.T, client processpbconnect.ProcessClient, request *processpb.StartRequest) *follower {
	t.Helper()
	stream, err := client.Start(t.Context(), connect.NewRequest(request))
	must(t, err)
	return &follower{trailer: stream.ResponseTrailer, receive: func() (*processpb.ProcessEvent, bool, error) {
		ok := stream.Receive()
		return stream.Msg().GetEvent(), ok, stream.Err()
	}}
}

func runCommand(t *testing.T, client processpbconnect.ProcessClient, request *processpb.StartRequest) result {
	t.Helper()
	return collect(t, start(t, client, request))
}

func collect(t *testing.T, stream *follower) result {
	t.Helper()
	var stdout strings.Builder
	stdout.WriteString(stream.got.stdout)
	for {
		stream.got.stdout = ""
		if !stream.next(t) {
			stream.got.stdout = stdout.String()
			return stream.got
		}
		stdout.WriteString(stream.got.stdout)
	}
}

func (f *follower) pid(t *testing.T) uint32 {
	t.Helper()
	for f.started == 0 {
		f.next(t)
	}
	return f.started
}

func (f *follower) next(t *testing.T) bool {
	t.Helper()
	event, ok, err := f.receive()
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return false
	}
	if event.GetStart() != nil {
		f.started = event.GetStart().GetPid()
	}
	f.got.stdout += string(event.GetData().GetStdout())
	f.got.stderr += string(event.GetData().GetStderr())
	f.got.pty += string(event.GetData().GetPty())
	if event.GetEnd() != nil {
		f.got.end = event.GetEnd()
	}
	return true
}

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("not in time: " + what)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ptr[T any](value T) *T { return &value }
