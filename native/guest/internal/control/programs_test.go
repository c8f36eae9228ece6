package control

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ramet.dev/native/guest/internal/identity"
)

type fakeProcess struct {
	pid, executable, maps, environ string
}

func writeProcesses(t *testing.T, root string, processes []fakeProcess) {
	t.Helper()
	for _, process := range processes {
		directory := filepath.Join(root, "proc", process.pid)
		must(t, os.MkdirAll(directory, 0o755))
		must(t, os.Symlink(process.executable, filepath.Join(directory, "exe")))
		must(t, os.WriteFile(filepath.Join(directory, "maps"), []byte(process.maps), 0o644))
		must(t, os.WriteFile(filepath.Join(directory, "environ"), []byte(process.environ), 0o644))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProgramsWhoseClonesRepeatRandomNumbersAreNamed(t *testing.T) {
	root := t.TempDir()
	openssl := "7f00-7f10 r-xp 00000000 00:01 7 /usr/lib/x86_64-linux-gnu/libcrypto.so.3\n"
	writeProcesses(t, root, []fakeProcess{
		{"1", "/sbin/ramet-guest", "", ""},
		{"2", "/usr/bin/python3.11", "", "A=b\x00"},
		{"3", "/usr/bin/python3.12", "", ""},
		{"4", "/usr/bin/node", "", "A=b\x00RAMET_RESEEDS=python,node\x00"},
		{"5", "/usr/sbin/nginx (deleted)", openssl, ""},
		{"6", "/usr/bin/sleep", "7f00-7f10 r-xp 00000000 00:01 7 /lib/libc.so.6\n", ""},
		{"7", "/tmp/a\nb\xff" + strings.Repeat("x", 100), openssl, ""},
		{"9", "/usr/sbin/php-fpm8.2", "", ""},
		{"self", "/usr/bin/node", "", ""},
	})
	must(t, os.MkdirAll(filepath.Join(root, "proc", "8"), 0o755))
	want := []string{"a?b?" + strings.Repeat("x", 60), "nginx", "php", "python"}
	if got := programsWithSeeds(t.Context(), filepath.Join(root, "proc")); !slices.Equal(got, want) {
		t.Errorf("the programs are %q, want %q", got, want)
	}
}

func TestAtMostEightProgramsAreNamed(t *testing.T) {
	root := t.TempDir()
	for _, name := range strings.Split("abcdefghij", "") {
		maps := "7f00-7f10 r-xp 00000000 00:01 7 /lib/libcrypto.so.1.1\n"
		writeProcesses(t, root, []fakeProcess{{"1" + string(name[0]-'a'+'0'), "/bin/" + name, maps, ""}})
	}
	if got := programsWithSeeds(t.Context(), filepath.Join(root, "proc")); len(got) != mostSeeded {
		t.Errorf("%d programs are named", len(got))
	}
	if got := programsWithSeeds(t.Context(), filepath.Join(root, "nothing")); len(got) != 0 {
		t.Errorf("%q are named without processes", got)
	}
}

func TestProgramsAreNamedWithoutTheirArguments(t *testing.T) {
	root := t.TempDir()
	writeProcesses(t, root, []fakeProcess{
		{"1", "/sbin/ramet-guest", "", ""},
		{"7", "/usr/bin/python3.12", "", "TOKEN=secret\x00"},
		{"8", "/usr/bin/python3.12", "", ""},
		{"9", "/tmp/\x1b[2Ja\nb (deleted)", "", ""},
		{"self", "/usr/bin/node", "", ""},
	})
	must(t, os.MkdirAll(filepath.Join(root, "proc", "10"), 0o755))
	want := Programs{Processes: 3, Names: []string{"??2Ja?b", "python3.12"}}
	if got, err := programsIn(t.Context(), filepath.Join(root, "proc"), "1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the programs are %+v, want %+v: %v", got, want, err)
	}
}

func TestAtMostTwentyOfTheRunningProgramsAreNamed(t *testing.T) {
	root := t.TempDir()
	for number := range 25 {
		writeProcesses(t, root, []fakeProcess{{strconv.Itoa(number + 2), "/bin/p" + strconv.Itoa(number+10), "", ""}})
	}
	got, err := programsIn(t.Context(), filepath.Join(root, "proc"), "1")
	if err != nil {
		t.Fatal(err)
	}
	if got.Processes != 25 || len(got.Names) != 20 || got.Others != 5 {
		t.Errorf("%d processes, %d names and %d others", got.Processes, len(got.Names), got.Others)
	}
}

// answerTo returns the status and the body of the answer of a guest that is the only one to call.
func answerTo(t *testing.T, ctx context.Context, root, path string) (int, string) {
	t.Helper()
	server := &Server{Identity: &identity.State{}, Entrypoint: &Entrypoint{}, Root: root, HookDir: filepath.Join(root, "hooks")}
	answer := httptest.NewRecorder()
	server.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

func TestASandboxWithoutProgramsAnswersEmptyLists(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	for path, want := range map[string]string{
		"/programs":        `{"processes":0,"names":[]}`,
		"/random-programs": `{"programs":[]}`,
	} {
		if status, body := answerTo(t, t.Context(), root, path); status != http.StatusOK || body != want {
			t.Errorf("%s answers %d %s, want %s", path, status, body, want)
		}
	}
}

func TestAPartOfTheProgramsIsNoAnswer(t *testing.T) {
	many, one := t.TempDir(), t.TempDir()
	for number := range mostProcesses + 1 {
		must(t, os.MkdirAll(filepath.Join(many, "proc", strconv.Itoa(number+2)), 0o755))
	}
	writeProcesses(t, one, []fakeProcess{{"2", "/bin/sleep", "", ""}})
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, answer := range map[string]func() (int, string){
		"too many processes": func() (int, string) { return answerTo(t, t.Context(), many, "/programs") },
		"no time":            func() (int, string) { return answerTo(t, late, one, "/programs") },
		"no list":            func() (int, string) { return answerTo(t, t.Context(), t.TempDir(), "/programs") },
	} {
		if status, body := answer(); status != http.StatusInternalServerError {
			t.Errorf("%s: the answer is %d %s", name, status, body)
		}
	}
}
