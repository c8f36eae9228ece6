package control

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	// stopTimeout is far longer than a process takes to leave a system call.
	stopTimeout = 10 * time.Second
	stopPoll    = time.Millisecond
)

var errNotStopped = errors.New("programs keep starting others, or do not stop")

// stopOthers stops all processes but the guest, so that the files are those of one moment. It returns what lets them run on, also with
// an error. A process that somebody else has stopped stays so.
func stopOthers(ctx context.Context, proc string) (resume func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var stopped []int
	known := map[int]bool{}
	resume = func() {
		// A shell must not find that what it waits for has stopped.
		for _, pid := range slices.Backward(stopped) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	for {
		running, err := runningIn(proc)
		if err != nil || len(running) == 0 {
			return resume, err
		}
		for _, pid := range running {
			// Another process may have let it run on.
			if err := syscall.Kill(pid, syscall.SIGSTOP); err == syscall.ESRCH {
				continue
			} else if err != nil {
				return resume, err
			}
			if !known[pid] {
				known[pid] = true
				stopped = append(stopped, pid)
			}
		}
		select {
		case <-ctx.Done():
			return resume, errNotStopped
		case <-time.After(stopPoll):
		}
	}
}

// runningIn returns the processes besides the guest that have neither ended nor stopped.
func runningIn(proc string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	var running []int
	for _, entry := range entries {
		pid, notPid := strconv.Atoi(entry.Name())
		if notPid != nil || pid == os.Getpid() {
			continue
		}
		if !slices.Contains([]byte("ZXTt\x00"), stateOf(filepath.Join(proc, entry.Name()))) {
			running = append(running, pid)
		}
	}
	return running, err
}

// stateOf returns the state of a process as proc_pid_stat(5) has it; 0: it has ended. The name before it can have any characters.
func stateOf(process string) byte {
	stat := readStart(filepath.Join(process, "stat"))
	if at := bytes.LastIndexByte(stat, ')'); at >= 0 && len(stat) > at+2 {
		return stat[at+2]
	}
	return 0
}
