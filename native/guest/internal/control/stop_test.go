package control

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// processes starts programs that run until the end of the test, and returns a directory that lists only them.
func processes(t *testing.T, count int) (proc string, pids []int) {
	t.Helper()
	proc = t.TempDir()
	for range count {
		command := exec.Command("sleep", "60")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
		name := strconv.Itoa(command.Process.Pid)
		if err := os.Symlink(filepath.Join("/proc", name), filepath.Join(proc, name)); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, command.Process.Pid)
	}
	return proc, pids
}

func untilState(t *testing.T, proc string, pid int, isStopped bool) {
	t.Helper()
	for range 1000 {
		if (stateOf(filepath.Join(proc, strconv.Itoa(pid))) == 'T') == isStopped {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the process %d does not become stopped: %v", pid, isStopped)
}

func TestProcessesAreStoppedAndRunOnUnlessTheyWereStoppedBefore(t *testing.T) {
	proc, pids := processes(t, 3)
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	untilState(t, proc, pids[0], true)
	resume, err := stopOthers(context.Background(), proc)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if state := stateOf(filepath.Join(proc, strconv.Itoa(pid))); state != 'T' {
			t.Errorf("the process %d is not stopped: %c", pid, state)
		}
	}
	resume()
	untilState(t, proc, pids[0], true)
	untilState(t, proc, pids[1], false)
	untilState(t, proc, pids[2], false)
}

func TestProcessesRunOnIfTheCallerHasLeft(t *testing.T) {
	proc, pids := processes(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	resume, err := stopOthers(ctx, proc)
	resume()
	if err == nil {
		// It was stopped before anybody looked.
		t.Log("the process was stopped at once")
	}
	untilState(t, proc, pids[0], false)
}
