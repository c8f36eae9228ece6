package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
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

func TestFileOfTheKernelIsDownloaded(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	status, text := g.http("GET", "/files?path=/proc/version", nil, "X-Access-Token", "secret")
	if status != 200 || !strings.Contains(text, "Linux version") {
		t.Errorf("%d %s", status, text)
	}
	path := filepath.Join(g.dir, "empty")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	status, text = g.http("GET", "/files?path="+url.QueryEscape(path), nil, "X-Access-Token", "secret")
	if status != 200 || text != "" {
		t.Errorf("%d %s", status, text)
	}
}

// A file in sysfs has the size of a page. A file that a program shortens while it is read is such a file too.
func TestFileThatIsShorterThanItsSizeIsDownloaded(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	const path = "/sys/devices/system/cpu/online"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	status, text := g.http("GET", "/files?path="+path, nil, "X-Access-Token", "secret", "Accept-Encoding", "identity")
	if status != 200 || text != string(want) {
		t.Errorf("%d %q", status, text)
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

func TestFormWithTwoFilesOfTheSamePathIsRejected(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	path := filepath.Join(g.dir, "a")
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, content := range []string{"first", "second"} {
		part, _ := form.CreateFormFile("file", path)
		_, _ = io.WriteString(part, content)
	}
	_ = form.Close()
	status, text := g.http("POST", "/files", &body, "X-Access-Token", "secret", "Content-Type", form.FormDataContentType())
	if status != 400 || !strings.Contains(text, "two files") {
		t.Errorf("%d %s", status, text)
	}
	if got, _ := os.ReadFile(path); string(got) != "first" {
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
	for link, want := range map[string]string{
		sign("read", ""): "",
		sign("read", fmt.Sprint(time.Now().Add(time.Minute).Unix())):  "",
		sign("read", fmt.Sprint(time.Now().Add(-time.Minute).Unix())): `{"code":401,"message":"signature is already expired"}`,
		sign("write", ""): `{"code":401,"message":"invalid signature"}`,
	} {
		status, text := g.http("GET", link, nil)
		if want == "" && status != 200 || want != "" && (status != 401 || strings.TrimSpace(text) != want) {
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
		if entry.GetType() != filesystempb.FileType_FILE_TYPE_FILE || entry.GetMode() != 0o640 || entry.GetSymlinkTarget() != root+"/b/file" {
			t.Error("not of the target:", entry)
		}
		if entry.GetSize() != int64(len("b/file")) || entry.GetPermissions() != "Lrwxrwxrwx" || entry.GetOwner() == "" {
			t.Error("not of the link:", entry)
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
		must(t, os.Symlink("loop", root+"/loop"))
		_, err = client.ListDir(ctx, connect.NewRequest(&filesystempb.ListDirRequest{Path: root + "/loop"}))
		wantCode(t, err, connect.CodeFailedPrecondition)
		// Without a path, the working directory can be read, but not removed.
		here, err := client.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{}))
		must(t, err)
		if here.Msg.GetEntry().GetPath() != g.dir {
			t.Error(here.Msg)
		}
		_, err = client.Remove(ctx, connect.NewRequest(&filesystempb.RemoveRequest{}))
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

func TestDirectoryOfAnySizeIsListed(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/deep/deeper", 0o755))
	for i := range 25_000 {
		must(t, os.WriteFile(fmt.Sprintf("%s/deep/%05d", dir, i), nil, 0o644))
	}
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		list := func(path string, depth uint32) []*filesystempb.EntryInfo {
			listed, err := g.filesystem(option).ListDir(t.Context(), connect.NewRequest(&filesystempb.ListDirRequest{Path: path, Depth: depth}))
			must(t, err)
			return listed.Msg.GetEntries()
		}
		for depth, want := range map[uint32]int{1: 1, 2: 25_002} {
			entries := list(dir, depth)
			if len(entries) != want {
				t.Fatalf("%d entries at depth %d", len(entries), depth)
			}
			last := entries[len(entries)-1]
			if depth == 2 && (last.GetName() != "deeper" || last.GetType() != filesystempb.FileType_FILE_TYPE_DIRECTORY || last.GetOwner() == "") {
				t.Error(last)
			}
		}
		if none := list(dir+"/deep/deeper", 1); len(none) != 0 {
			t.Error(none)
		}
	})
	if _, high := g.residentKiB(); high > 48<<10 {
		t.Errorf("the guest used %d KiB for it", high)
	}
}
