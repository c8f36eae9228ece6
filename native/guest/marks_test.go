package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ramet.dev/native/guest/internal/envdtest/processpb"
)

func TestSandboxOfAnE2BClientHasTheVariablesOfE2B(t *testing.T) {
	g := startGuest(t)
	variables := func() string {
		command := &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", `echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID $MORE`}}
		return strings.TrimSpace(runCommand(t, g.processes(), &processpb.StartRequest{Process: command}).stdout)
	}
	files := func() string {
		var values []string
		for _, name := range []string{".E2B_SANDBOX", ".E2B_SANDBOX_ID", ".E2B_TEMPLATE_ID"} {
			text, err := os.ReadFile(filepath.Join(g.dir, "marks", name))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			values = append(values, string(text))
		}
		return strings.TrimSpace(strings.Join(values, " "))
	}
	want := func(inCommands, inFiles string) {
		t.Helper()
		if got := variables(); got != inCommands {
			t.Errorf("commands have %q, want %q", got, inCommands)
		}
		if got := files(); got != inFiles {
			t.Errorf("the files have %q, want %q", got, inFiles)
		}
	}
	identity := func(generation int, environment map[string]string) {
		request := map[string]any{"generation": generation, "clone": generation > 1, "environment": environment}
		if status, answer := g.init(request); status != 200 || len(answer["warnings"].([]any)) > 0 {
			t.Fatal(status, answer)
		}
	}
	identity(1, map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": "a-longer-id", "E2B_TEMPLATE_ID": "base", "MORE": "one"})
	want("true a-longer-id base one", "true a-longer-id base")

	// A client can replace its own variables, but not those that say what the sandbox is.
	adjust := `{"accessToken":"secret","envVars":{"MORE":"two","E2B_SANDBOX_ID":"forged","E2B_TEMPLATE_ID":"forged"}}`
	if status, text := g.http("POST", "/init", strings.NewReader(adjust)); status != 204 {
		t.Fatal(status, text)
	}
	want("true a-longer-id base two", "true a-longer-id base")
	if status, text := g.http("POST", "/init", strings.NewReader(`{"accessToken":"secret","envVars":{}}`)); status != 204 {
		t.Fatal(status, text)
	}
	want("true a-longer-id base", "true a-longer-id base")

	identity(2, map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": "clone", "E2B_TEMPLATE_ID": "snapshot"})
	want("true clone snapshot", "true clone snapshot")

	// A clone that no client of E2B made.
	identity(3, map[string]string{})
	want("", "")
}
