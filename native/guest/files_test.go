package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"ramet.dev/native/guest/internal/envdtest/filesystempb"
)

func TestClientUploadsAndDownloadsFiles(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	path := filepath.Join(g.dir, "new/directory/file")
	query := "/files?path=" + url.QueryEscape(path)
	status, text := g.http("POST", query, strings.NewReader("0123456789"), "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
	if want := fmt.Sprintf(`[{"path":%q,"name":"file","type":"file"}]`, path); status != 200 || strings.TrimSpace(text) != want {
		t.Errorf("%d %s", status, text)
	}
	if status, text := g.http("GET", query, nil, "X-Access-Token", "secret"); status != 200 || text != "0123456789" {
		t.Errorf("%d %s", status, text)
	}
	if status, text := g.http("GET", query, nil, "X-Access-Token", "secret", "Range", "bytes=2-4"); status != 206 || text != "234" {
		t.Errorf("%d %s", status, text)
	}
}

func TestNamedPipeIsNotDownloaded(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	path := filepath.Join(g.dir, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	status, text := g.http("GET", "/files?path="+url.QueryEscape(path), nil, "X-Access-Token", "secret")
	if status != 400 || !strings.Contains(text, "not a regular file") {
		t.Errorf("%d %s", status, text)
	}
}

func TestFormUploadsSeveralFiles(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, name := range []string{"a", "sub/b"} {
		part, _ := form.CreateFormFile("file", filepath.Join(g.dir, name))
		_, _ = io.WriteString(part, "content of "+name)
	}
	_ = form.Close()
	status, text := g.http("POST", "/files", &body, "X-Access-Token", "secret", "Content-Type", form.FormDataContentType())
	if status != 200 || strings.Count(text, `"type":"file"`) != 2 {
		t.Errorf("%d %s", status, text)
	}
	if got, _ := os.ReadFile(filepath.Join(g.dir, "sub/b")); string(got) != "content of sub/b" {
		t.Errorf("the file has %q", got)
	}
}

func TestLargeFileIsStreamed(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	const size = 256 << 20
	query := "/files?path=" + url.QueryEscape(filepath.Join(g.dir, "huge"))
	status, text := g.http("POST", query, io.LimitReader(zeros{}, size), "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
	if status != 200 {
		t.Fatal(status, text)
	}
	if info, err := os.Stat(filepath.Join(g.dir, "huge")); err != nil || info.Size() != size {
		t.Error(info, err)
	}
	if status, text := g.http("GET", query, nil, "X-Access-Token", "secret"); status != 200 || len(text) != size {
		t.Error(status, len(text))
	}
	if _, high := g.residentKiB(); high > 32<<10 {
		t.Errorf("the guest used %d KiB for it", high)
	}
}

func TestFailedTransfersAreReported(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	for _, call := range []struct {
		method, query string
		status        int
	}{
		{"GET", "/files?path=/no/such/file", 404},
		{"GET", "/files?path=/etc", 400},
		{"GET", "/files", 400},
		{"GET", "/files?path=/etc/passwd&username=nobody-of-that-name", 401},
		{"POST", "/files?path=/etc", 400},
		{"POST", "/files", 400},
		{"POST", "/files?path=/etc/passwd/below", 400},
	} {
		status, text := g.http(call.method, call.query, nil, "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
		if status != call.status || !strings.Contains(text, `"message":"`) || !strings.Contains(text, fmt.Sprintf(`"code":%d`, status)) {
			t.Errorf("%v: %d %s", call, status, text)
		}
	}
}

func TestClientPortRequiresTheToken(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	for _, path := range []string{"/envs", "/metrics", "/files?path=/etc/passwd", "/files?path=/etc/passwd&signature=v1_x"} {
		for _, token := range []string{"", "wrong"} {
			if status, text := g.http("GET", path, nil, "X-Access-Token", token); status != 401 {
				t.Errorf("%s with token %q: %d %s", path, token, status, text)
			}
		}
	}
	if status, _ := g.http("GET", "/health", nil); status != 204 {
		t.Errorf("health: %d", status)
	}
	if status, _ := g.http("POST", "/init", strings.NewReader(`{"accessToken":"mine"}`)); status != 401 {
		t.Errorf("init: %d", status)
	}
	if status, text := g.http("GET", "/envs", nil, "X-Access-Token", "secret"); status != 200 || strings.TrimSpace(text) != "{}" {
		t.Errorf("%d %s", status, text)
	}
}

func TestSignedLinkReplacesTheToken(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	sign := func(operation, expiry string) string {
		text := "/etc/passwd:" + operation + ":root:secret"
		if expiry != "" {
			text += ":" + expiry
		}
		sum := sha256.Sum256([]byte(text))
		link := "/files?path=/etc/passwd&username=root&signature=" + url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
		if expiry != "" {
			link += "&signature_expiration=" + expiry
		}
		return link
	}
	for link, want := range map[string]int{
		sign("read", ""): 200,
		sign("read", fmt.Sprint(time.Now().Add(time.Minute).Unix())):  200,
		sign("read", fmt.Sprint(time.Now().Add(-time.Minute).Unix())): 401,
		sign("write", ""): 401,
	} {
		if status, text := g.http("GET", link, nil); status != want {
			t.Errorf("%s: %d %s", link, status, text)
		}
	}
}

func TestClientManagesDirectories(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		client, ctx := g.filesystem(option), t.Context()
		root := filepath.Join(t.TempDir(), "a")
		made, err := client.MakeDir(ctx, connect.NewRequest(&filesystempb.MakeDirRequest{Path: root + "/b"}))
		must(t, err)
		if entry := made.Msg.GetEntry(); entry.GetType() != filesystempb.FileType_FILE_TYPE_DIRECTORY || entry.GetName() != "b" {
			t.Error(entry)
		}
		_, err = client.MakeDir(ctx, connect.NewRequest(&filesystempb.MakeDirRequest{Path: root + "/b"}))
		wantCode(t, err, connect.CodeAlreadyExists)
		must(t, os.WriteFile(root+"/b/file", []byte("12345"), 0o640))
		must(t, os.Symlink("b/file", root+"/link"))
		stat, err := client.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{Path: root + "/link"}))
		must(t, err)
		entry := stat.Msg.GetEntry()
		if entry.GetSize() != 5 || entry.GetMode() != 0o640 || entry.GetPermissions() != "-rw-r-----" || entry.GetSymlinkTarget() != root+"/b/file" || entry.GetOwner() == "" {
			t.Error(entry)
		}
		if time.Since(entry.GetModifiedTime().AsTime()) > time.Minute {
			t.Error(entry.GetModifiedTime())
		}
		for depth, want := range map[uint32]int{0: 2, 1: 2, 2: 3} {
			listed, err := client.ListDir(ctx, connect.NewRequest(&filesystempb.ListDirRequest{Path: root, Depth: depth}))
			must(t, err)
			if len(listed.Msg.GetEntries()) != want {
				t.Errorf("depth %d: %v", depth, listed.Msg)
			}
		}
		moved, err := client.Move(ctx, connect.NewRequest(&filesystempb.MoveRequest{Source: root + "/b/file", Destination: root + "/c/d"}))
		must(t, err)
		if moved.Msg.GetEntry().GetPath() != root+"/c/d" {
			t.Error(moved.Msg)
		}
		_, err = client.Remove(ctx, connect.NewRequest(&filesystempb.RemoveRequest{Path: root + "/c"}))
		must(t, err)
		_, err = client.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{Path: root + "/c/d"}))
		wantCode(t, err, connect.CodeNotFound)
		_, err = client.ListDir(ctx, connect.NewRequest(&filesystempb.ListDirRequest{Path: "/etc/passwd"}))
		wantCode(t, err, connect.CodeInvalidArgument)
		_, err = client.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{}))
		wantCode(t, err, connect.CodeInvalidArgument)
	})
}

func TestWatcherReportsChangesOfADirectory(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		client, ctx, dir := g.filesystem(option), t.Context(), t.TempDir()
		stream, err := client.WatchDir(ctx, connect.NewRequest(&filesystempb.WatchDirRequest{Path: dir, Recursive: true, IncludeEntry: true}))
		must(t, err)
		polled, err := client.CreateWatcher(ctx, connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: dir}))
		must(t, err)
		if !stream.Receive() || stream.Msg().GetStart() == nil {
			t.Fatal(stream.Msg(), stream.Err())
		}
		must(t, os.Mkdir(dir+"/sub", 0o755))
		if !stream.Receive() || stream.Msg().GetFilesystem().GetName() != "sub" || stream.Msg().GetFilesystem().GetEntry().GetPath() != dir+"/sub" {
			t.Fatal(stream.Msg(), stream.Err())
		}
		must(t, os.WriteFile(dir+"/sub/file", []byte("x"), 0o644))
		for _, want := range []filesystempb.EventType{filesystempb.EventType_EVENT_TYPE_CREATE, filesystempb.EventType_EVENT_TYPE_WRITE} {
			if !stream.Receive() || stream.Msg().GetFilesystem().GetName() != "sub/file" || stream.Msg().GetFilesystem().GetType() != want {
				t.Fatal(stream.Msg(), stream.Err())
			}
		}
		id := &filesystempb.GetWatcherEventsRequest{WatcherId: polled.Msg.GetWatcherId()}
		eventually(t, "the poller gets the event", func() bool {
			events, err := client.GetWatcherEvents(ctx, connect.NewRequest(id))
			must(t, err)
			return len(events.Msg.GetEvents()) == 1 && events.Msg.GetEvents()[0].GetName() == "sub"
		})
		_, err = client.RemoveWatcher(ctx, connect.NewRequest(&filesystempb.RemoveWatcherRequest{WatcherId: id.GetWatcherId()}))
		must(t, err)
		_, err = client.GetWatcherEvents(ctx, connect.NewRequest(id))
		wantCode(t, err, connect.CodeNotFound)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func wantCode(t *testing.T, err error, code connect.Code) {
	t.Helper()
	var coded *connect.Error
	if !errors.As(err, &coded) || coded.Code() != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestMetadataOfFilesIsKept(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	path := filepath.Join(g.dir, "described")
	if err := syscall.Setxattr(g.dir, "user.e2b.probe", []byte("x"), 0); err != nil {
		t.Skip("the file system has no extended attributes:", err)
	}
	upload := func(headers ...string) string {
		headers = append(headers, "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
		status, text := g.http("POST", "/files?path="+url.QueryEscape(path), strings.NewReader("1"), headers...)
		if status != 200 {
			t.Fatal(status, text)
		}
		return text
	}
	if text := upload("X-Metadata-Author", "ada", "X-Metadata-Purpose", "test"); !strings.Contains(text, `"metadata":{"author":"ada","purpose":"test"}`) {
		t.Error(text)
	}
	long := strings.Repeat("v", 1000)
	must(t, syscall.Setxattr(path, "user.e2b.long", []byte(long), 0))
	must(t, syscall.Setxattr(path, "user.other", []byte("x"), 0))
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		client := g.filesystem(option)
		stat, err := client.Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: path}))
		must(t, err)
		want := map[string]string{"author": "ada", "purpose": "test", "long": long}
		if got := stat.Msg.GetEntry().GetMetadata(); !maps.Equal(got, want) {
			t.Error(got)
		}
		listed, err := client.ListDir(t.Context(), connect.NewRequest(&filesystempb.ListDirRequest{Path: g.dir}))
		must(t, err)
		for _, entry := range listed.Msg.GetEntries() {
			if entry.GetPath() == path && !maps.Equal(entry.GetMetadata(), want) {
				t.Error(entry)
			}
		}
	})
	// The metadata of earlier content does not describe the new one.
	upload("X-Metadata-Author", "grace")
	stat, err := g.filesystem().Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: path}))
	must(t, err)
	if got := stat.Msg.GetEntry().GetMetadata(); !maps.Equal(got, map[string]string{"author": "grace"}) {
		t.Error(got)
	}
}

func TestPartsBecomeOneFile(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	dir := filepath.Join(g.dir, "parts")
	must(t, os.Mkdir(dir, 0o755))
	for name, content := range map[string]string{"one": "abc", "two": "def", "kept": "old"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	compose := func(destination string, parts ...string) (int, string) {
		paths := make([]string, len(parts))
		for i, part := range parts {
			paths[i] = filepath.Join(dir, part)
		}
		body, _ := json.Marshal(map[string]any{"source_paths": paths, "destination": filepath.Join(dir, destination)})
		return g.http("POST", "/files/compose", bytes.NewReader(body), "X-Access-Token", "secret")
	}
	for want, parts := range map[int][]string{400: {"one", "pipe"}, 404: {"one", "missing"}} {
		if status, text := compose("kept", parts...); status != want {
			t.Errorf("%v: %d %s", parts, status, text)
		}
	}
	must(t, os.Symlink("one", filepath.Join(dir, "link")))
	for _, parts := range [][]string{{"one", "two"}, {"link", "two"}} {
		if status, text := compose("one", parts...); status != 400 {
			t.Errorf("%v: %d %s", parts, status, text)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "link")))
	if status, text := g.http("POST", "/files/compose", strings.NewReader(`{"destination":"/x"}`), "X-Access-Token", "secret"); status != 400 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := g.http("POST", "/files/compose", strings.NewReader(`{}`)); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "kept")); string(got) != "old" {
		t.Errorf("a failed request changed the file to %q", got)
	}
	status, text := compose("kept", "one", "two")
	if want := fmt.Sprintf(`{"path":%q,"name":"kept","type":"file"}`, filepath.Join(dir, "kept")); status != 200 || strings.TrimSpace(text) != want {
		t.Errorf("%d %s", status, text)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "kept")); string(got) != "abcdef" {
		t.Errorf("%q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}
