package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/tree"
)

var lockModes = map[string]int{
	"shared": unix.LOCK_SH, "exclusive": unix.LOCK_EX, "exclusive-now": unix.LOCK_EX | unix.LOCK_NB,
}

// exitBusy is the exit code if another process has the lock.
const exitBusy = 3

// lockPassed runs `ramet-link lock` and returns its exit code. A lock of flock(2) belongs to what was opened, which this process shares
// with its caller: the caller keeps the lock until it closes the descriptor or ends, whatever ends it.
func lockPassed(args []string) int {
	how, isKnown := 0, false
	if len(args) == 1 {
		how, isKnown = lockModes[args[0]]
	}
	if !isKnown {
		fmt.Fprintln(os.Stderr, "usage: ramet-link lock shared|exclusive|exclusive-now   locks what is open as descriptor 3")
		return 2
	}
	// A caller that ended waits for nothing.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	for {
		err := unix.Flock(3, how)
		switch {
		case err == nil:
			return 0
		case errors.Is(err, unix.EWOULDBLOCK):
			return exitBusy
		case !errors.Is(err, unix.EINTR):
			tree.PrintFailure(fmt.Errorf("locking: %w", err))
			return 1
		}
	}
}
