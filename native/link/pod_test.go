package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is an ordinary user of every Linux.
const nobody = 65534

// callers are those who may run a pod here: this user and, where this one is root, an ordinary one.
func callers(t *testing.T, f func(t *testing.T, credential *syscall.Credential)) {
	t.Run("this user", func(t *testing.T) { f(t, nil) })
	t.Run("an ordinary user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("this user is one")
		}
		f(t, &syscall.Credential{Uid: nobody, Gid: nobody})
	})
}

// link is `ramet-link` with arguments, as some user.
func link(t *testing.T, as *syscall.Credential, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(binaryForAll(t), arguments...)
	command.Env = append(os.Environ(), asLink)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	command.Dir = "/"
	return command
}

// binaryForAll is a copy of this binary that other users can run, too.
func binaryForAll(t *testing.T) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	must(t, err)
	defer func() { _ = from.Close() }()
	path := filepath.Join(openFolder(t), "ramet-link")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(to, from)
	must(t, err)
	must(t, to.Close())
	return path
}

func openFolder(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "link-test-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	must(t, os.Chmod(directory, 0o755))
	return directory
}

func skipIfRefused(t *testing.T, output string) {
	t.Helper()
	if strings.Contains(output, `"HostUnsupported"`) {
		t.Skip("this machine refuses: ", output)
	}
}

func TestPodRunsAsRootOfItsOwnNamespaces(t *testing.T) {
	callers(t, func(t *testing.T, as *syscall.Credential) {
		script := `id -u; hostname; readlink /proc/self/ns/pid /proc/self/ns/mnt; [ $$ -lt 100 ] && echo small; exit 7`
		output, err := link(t, as, "pod", "--hostname", "inner", "--", "sh", "-c", script).CombinedOutput()
		skipIfRefused(t, string(output))
		if err == nil || err.Error() != "exit status 7" {
			t.Errorf("ended with %v, want exit status 7", err)
		}
		lines := strings.Fields(string(output))
		pidNamespace, _ := os.Readlink("/proc/self/ns/pid")
		if len(lines) != 5 || lines[0] != "0" || lines[1] != "inner" || lines[2] == pidNamespace || lines[4] != "small" {
			t.Errorf("printed %q", output)
		}
	})
}

func TestPodSeesOnlyItsMounts(t *testing.T) {
	callers(t, func(t *testing.T, as *syscall.Credential) {
		store := openFolder(t)
		for _, namespace := range []string{"team-a", "team-b"} {
			must(t, os.Mkdir(filepath.Join(store, namespace), 0o755))
			must(t, os.WriteFile(filepath.Join(store, namespace, "manifest"), nil, 0o644))
		}
		own := filepath.Join(store, "team-a")
		output, _ := link(t, as, "pod", "--hide", store, "--bind", own+":"+own+":ro", "--",
			"sh", "-c", "ls "+store+" "+own+"; touch "+own+"/x 2>/dev/null || echo read-only").CombinedOutput()
		skipIfRefused(t, string(output))
		if text := string(output); strings.Contains(text, "team-b") || !strings.Contains(text, "manifest") || !strings.Contains(text, "read-only") {
			t.Errorf("inside it looks like %q", text)
		}
	})
}

func TestPodEndsWithItsOuterProcess(t *testing.T) {
	callers(t, func(t *testing.T, as *syscall.Credential) {
		mark := fmt.Sprintf("%d.25", 100_000+os.Getpid())
		command := link(t, as, "pod", "--", "sh", "-c", "sleep "+mark+" & (setsid sleep "+mark+" &); echo up; wait")
		out, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
			_ = command.Wait()
			t.Skip("this machine refuses pods for this user")
		}
		must(t, command.Process.Kill())
		_ = command.Wait()
		eventually(t, "all processes are gone", func() bool { return len(processes(t, mark)) == 0 })
	})
}

func TestPodForwardsSignals(t *testing.T) {
	callers(t, func(t *testing.T, as *syscall.Credential) {
		command := link(t, as, "pod", "--", "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done")
		out, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
			_ = command.Wait()
			t.Skip("this machine refuses pods for this user")
		}
		must(t, command.Process.Signal(syscall.SIGTERM))
		if err := command.Wait(); err == nil || err.Error() != "exit status 9" {
			t.Errorf("ended with %v, want exit status 9", err)
		}
	})
}

// The whole of TestNetwork… again, with link inside a pod of an ordinary user.
func TestOrdinaryUserHasTheSameNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this user is one: run `ramet-link pod -- go test`")
	}
	binary := binaryForAll(t)
	command := link(t, &syscall.Credential{Uid: nobody, Gid: nobody}, "pod", "--", binary, "-test.run", "^TestNetwork", "-test.v")
	output, err := command.CombinedOutput()
	skipIfRefused(t, string(output))
	if err != nil || !strings.Contains(string(output), "PASS: TestNetworkConnectionsByName") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestProbeReportsSupportedNamespaces(t *testing.T) {
	callers(t, func(t *testing.T, as *syscall.Credential) {
		output, err := link(t, as, "probe").Output()
		if err == nil && strings.Count(string(output), `"ok": true`) != 4 || err != nil && !strings.Contains(string(output), `"reason"`) {
			t.Errorf("%v\n%s", err, output)
		}
	})
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 5 s: ", what)
		}
	}
}

// processes are those whose command line has a mark.
func processes(t *testing.T, mark string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), mark) {
			pids = append(pids, file)
		}
	}
	return pids
}

func TestPodBindsOnlyWhatIsBelowAVolume(t *testing.T) {
	callers(t, func(t *testing.T, as *syscall.Credential) {
		volume, secret, target := openFolder(t), openFolder(t), filepath.Join(openFolder(t), "shown")
		must(t, os.WriteFile(filepath.Join(secret, "secret"), nil, 0o644))
		must(t, os.Chmod(volume, 0o777))
		must(t, os.Symlink(secret, filepath.Join(volume, "link")))
		must(t, os.Mkdir(filepath.Join(volume, "own"), 0o777))
		must(t, os.WriteFile(filepath.Join(volume, "own", "file"), nil, 0o644))
		hidden := filepath.Dir(target)
		show := func(below string) string {
			flag := fmt.Sprintf(`{"source":%q,"below":%q,"target":%q}`, volume, below, target)
			output, _ := link(t, as, "pod", "--hide", hidden, "--bind-below", flag, "--", "ls", target).CombinedOutput()
			skipIfRefused(t, string(output))
			return string(output)
		}
		if text := show("own"); !strings.Contains(text, "file") {
			t.Errorf("a directory of the volume looks like %q", text)
		}
		if text := show("new/one"); text != "" {
			t.Errorf("a new directory looks like %q", text)
		}
		for _, below := range []string{"link", "own/../../" + filepath.Base(secret), "link/deeper"} {
			if text := show(below); strings.Contains(text, "secret\n") || !strings.Contains(text, "Binding") {
				t.Errorf("%s looks like %q", below, text)
			}
		}
		if _, err := os.Stat(filepath.Join(secret, "deeper")); err == nil {
			t.Error("a directory was created outside the volume")
		}
	})
}
