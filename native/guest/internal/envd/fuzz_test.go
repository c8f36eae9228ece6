package envd

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"ramet.dev/native/guest/internal/envdtest/filesystempb"
	"ramet.dev/native/guest/internal/envdtest/processpb"
	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/pb"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/users"
	"ramet.dev/native/internal/fuzzcheck"
)

// requests holds every message that a client sends, with the usual library's form of it.
var requests = []struct {
	ours, theirs func() any
}{
	{func() any { return new(startRequest) }, func() any { return new(processpb.StartRequest) }},
	{func() any { return new(selected) }, func() any { return new(processpb.ConnectRequest) }},
	{func() any { return new(updateRequest) }, func() any { return new(processpb.UpdateRequest) }},
	{func() any { return new(sendInputRequest) }, func() any { return new(processpb.SendInputRequest) }},
	{func() any { return new(streamInputRequest) }, func() any { return new(processpb.StreamInputRequest) }},
	{func() any { return new(sendSignalRequest) }, func() any { return new(processpb.SendSignalRequest) }},
	{func() any { return new(pathRequest) }, func() any { return new(filesystempb.StatRequest) }},
	{func() any { return new(listDirRequest) }, func() any { return new(filesystempb.ListDirRequest) }},
	{func() any { return new(moveRequest) }, func() any { return new(filesystempb.MoveRequest) }},
	{func() any { return new(watchRequest) }, func() any { return new(filesystempb.WatchDirRequest) }},
	{func() any { return new(watcherID) }, func() any { return new(filesystempb.RemoveWatcherRequest) }},
	{func() any { return new(watchResponse) }, func() any { return new(filesystempb.WatchDirResponse) }},
	{func() any { return new(eventResponse) }, func() any { return new(processpb.StartResponse) }},
	{func() any { return new(listDirResponse) }, func() any { return new(filesystempb.ListDirResponse) }},
}

// FuzzProto reads a message in protobuf's binary form. What the usual library reads, the guest reads, and with the same meaning.
func FuzzProto(f *testing.F) {
	command := &processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "sh", Args: []string{"-c", "true"}, Envs: map[string]string{"A": "b"}}, Tag: proto.String("t")}
	f.Add(byte(0), encoded(f, command))
	f.Add(byte(3), encoded(f, &processpb.SendInputRequest{Input: &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte("x")}}}))
	f.Add(byte(5), encoded(f, &processpb.SendSignalRequest{Signal: 9, Process: &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: 1}}}))
	f.Add(byte(9), encoded(f, &filesystempb.WatchDirRequest{Path: "/a", Recursive: true}))
	f.Add(byte(12), []byte("\x0a\x04\x1a\x02\x08\x01"))
	f.Add(byte(0), []byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add(byte(0), []byte("\x0b\x0c")) // a group, which proto3 does not have
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		kind := requests[int(which)%len(requests)]
		fuzzcheck.Input(t, func() {
			ours, theirs := kind.ours(), kind.theirs().(proto.Message)
			err := pb.Unmarshal(data, ours)
			if err != nil {
				return
			}
			written, err := pb.Marshal(ours)
			if err != nil {
				t.Fatalf("%x was read, but cannot be written: %v", data, err)
			}
			again := kind.ours()
			if err := pb.Unmarshal(written, again); err != nil || !reflect.DeepEqual(ours, again) {
				t.Fatalf("%+v was written and read as %+v: %v", ours, again, err)
			}
			if proto.Unmarshal(data, theirs) != nil {
				return
			}
			ofOurs := kind.theirs().(proto.Message)
			if err := proto.Unmarshal(written, ofOurs); err != nil {
				t.Fatalf("the usual library cannot read %x: %v", written, err)
			}
		})
	})
}

// FuzzJSON reads a message in JSON.
func FuzzJSON(f *testing.F) {
	f.Add(byte(0), []byte(`{"process":{"cmd":"sh","args":["-c"],"envs":{"A":"b"},"cwd":"/"},"pty":{"size":{"cols":80,"rows":24}},"stdin":false}`))
	f.Add(byte(5), []byte(`{"signal":"SIGNAL_SIGKILL","process":{"pid":1}}`))
	f.Add(byte(5), []byte(`{"signal":15}`))
	f.Add(byte(9), []byte(`{"path":"/a","include_entry":true}`))
	f.Add(byte(10), []byte(`{"watcher_id":"a"}`))
	f.Add(byte(12), []byte(`{"event":{"data":{"stdout":"_-8"},"end":{"exitCode":-1}}}`))
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		kind := requests[int(which)%len(requests)]
		fuzzcheck.Input(t, func() {
			ours, theirs := kind.ours(), kind.theirs().(proto.Message)
			if json.Unmarshal(data, ours) != nil {
				return
			}
			if _, err := json.Marshal(ours); err != nil {
				t.Fatalf("%q was read, but cannot be written: %v", data, err)
			}
			_ = protojson.Unmarshal(data, theirs)
		})
	})
}

// FuzzListing responds with a file whose name, owner and times a program in the sandbox chose.
func FuzzListing(f *testing.F) {
	f.Add("a", "b", int64(0), int64(1), uint32(0o755))
	f.Add("\xff\x00\n", "\xc3", int64(253402300800), int64(-1), uint32(1<<31))
	f.Fuzz(func(t *testing.T, name, target string, seconds, size int64, mode uint32) {
		fuzzcheck.Input(t, func() {
			entry := entryInfo{
				Name: name, Path: "/" + name, Size: pb.Int64(size), Mode: mode, SymlinkTarget: &target,
				ModifiedTime: pb.TimestampOf(time.Unix(seconds, 0)), Type: typeOf(fs.FileMode(mode)),
				Metadata: map[string]string{name: target},
			}
			response := &listDirResponse{Entries: []*entryInfo{&entry}}
			data, err := pb.Marshal(response)
			if err == nil {
				err = proto.Unmarshal(data, new(filesystempb.ListDirResponse))
			}
			if err != nil {
				t.Errorf("clients cannot read %+v in protobuf: %v", entry, err)
			}
			text, err := json.Marshal(response)
			if err == nil {
				err = protojson.Unmarshal(text, new(filesystempb.ListDirResponse))
			}
			if err != nil {
				t.Errorf("clients cannot read %+v in JSON: %v", entry, err)
			}
		})
	})
}

// listDirResponse is what rpc.UnaryList sends.
type listDirResponse struct {
	Entries []*entryInfo `json:"entries" pb:"1"`
}

// FuzzCalls sends calls to a server without commands and watchers, to the routes that change nothing then.
func FuzzCalls(f *testing.F) {
	paths := []string{
		"/process.Process/List", "/process.Process/Connect", "/process.Process/Update", "/process.Process/SendInput",
		"/process.Process/StreamInput", "/process.Process/SendSignal", "/process.Process/CloseStdin", "/filesystem.Filesystem/Stat",
		"/filesystem.Filesystem/GetWatcherEvents", "/filesystem.Filesystem/RemoveWatcher", "/init", "/files?path=/etc/passwd&signature=v1_x",
	}
	f.Add(byte(1), "application/connect+json", "secret", []byte("\x00\x00\x00\x00\x13{\"process\":{\"pid\":1}}"))
	f.Add(byte(3), "application/json", "secret", []byte(`{"process":{"tag":"a"},"input":{"stdin":"eA=="}}`))
	f.Add(byte(4), "application/connect+proto", "secret", []byte("\x00\x00\x00\x00\x00"))
	f.Add(byte(7), "application/proto", "secret", []byte("\x0a\x01/"))
	f.Add(byte(10), "application/json", "", []byte(`{"accessToken":"secret","envVars":{"A":"b"},"defaultWorkdir":"/"}`))
	f.Add(byte(11), "multipart/form-data; boundary=x", "", []byte("--x\r\nContent-Disposition: form-data; name=file\r\n\r\n--x--"))
	f.Fuzz(func(t *testing.T, which byte, kind, token string, body []byte) {
		path := paths[int(which)%len(paths)]
		if strings.HasPrefix(path, "/files") && token != "" {
			return // it would write
		}
		fuzzcheck.Input(t, func() {
			state := identity.New(nil, users.User{Name: "root", Home: "/"}, "/")
			state.Take(identity.Identity{Token: "secret", Generation: 1})
			request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
			request.Header.Set("Content-Type", kind)
			request.Header.Set("X-Access-Token", token)
			response := httptest.NewRecorder()
			New(process.NewTable(64<<10), state).Handler().ServeHTTP(response, request)
			isOpen := path == "/init"
			if token != "secret" && !isOpen && response.Code != http.StatusUnauthorized {
				t.Errorf("%s responded with %d to a stranger", path, response.Code)
			}
			if response.Code == http.StatusInternalServerError {
				t.Errorf("%s responded with 500: %s", path, response.Body)
			}
		})
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"~", "~/a/../..", "/a//b/./c", "../../etc", "", ".", "a\x00b", "~a", strings.Repeat("../", 50)} {
		f.Add(seed)
	}
	account := identity.Account{User: users.User{Name: "a", Home: "/home/a"}, Workdir: "/work"}
	f.Fuzz(func(t *testing.T, path string) {
		fuzzcheck.Input(t, func() {
			found := resolve(path, account)
			if !filepath.IsAbs(found) || found != filepath.Clean(found) {
				t.Errorf("%q is %q", path, found)
			}
		})
	})
}

// FuzzSignature reads the query of a link to a file, which a stranger may have written.
func FuzzSignature(f *testing.F) {
	f.Add("path=/a&signature=v1_x&signature_expiration=1")
	f.Add("path=/a&signature=&signature_expiration=99999999999999999999")
	f.Add("%zz;&=")
	f.Fuzz(func(t *testing.T, text string) {
		fuzzcheck.Input(t, func() {
			query, _ := url.ParseQuery(text)
			if checkSignature("a token that nobody guesses", "read", query) == nil {
				t.Errorf("%q was accepted", text)
			}
		})
	})
}

func encoded(t testing.TB, message proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
