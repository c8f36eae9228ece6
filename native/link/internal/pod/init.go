package pod

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// The plan comes on the first descriptor after stderr, which stays open as long as the outer process lives.
const planFd = 3

// Init is process 1 of the pod. In a user namespace it runs twice: a process has the namespace's capabilities only after
// it was executed as that namespace's root, and it is root there only after its ids are mapped.
func Init() int {
	unix.CloseOnExec(planFd)
	outer := os.NewFile(planFd, "plan")
	text := os.Getenv(planVariable)
	if text == "" {
		read, err := bufio.NewReader(outer).ReadString('\n')
		if err != nil {
			return failed // the outer process has failed and says why
		}
		text = strings.TrimSpace(read)
	}
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fail(err)
	}
	if p.UserNamespace && os.Getenv(planVariable) == "" {
		return fail(again(text))
	}
	_ = os.Unsetenv(planVariable)
	dieWith(outer)
	if err := arrange(p); err != nil {
		return fail(err)
	}
	return supervise(p.Command)
}

// planVariable hands the plan to the second execution.
const planVariable = "RAMET_POD_PLAN"

func again(plan string) error {
	if _, err := unix.FcntlInt(planFd, unix.F_SETFD, 0); err != nil {
		return err
	}
	err := syscall.Exec("/proc/self/exe", []string{"ramet-link", InitName}, append(os.Environ(), planVariable+"="+plan))
	return fault.New("HostUnsupported", "", "Starting the first process of the pod failed: %v", err)
}

// dieWith ends the pod when the outer process is gone. The kernel does it too (PR_SET_PDEATHSIG), but forgets about it
// when a process gains capabilities, as the second execution does.
func dieWith(outer *os.File) {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	go func() {
		_, _ = io.Copy(io.Discard, outer)
		os.Exit(128 + int(syscall.SIGKILL))
	}()
}

// supervise runs the command, hands it signals, reaps what is left to process 1, and ends with the command's code: with
// process 1 the kernel ends everything else in the namespace.
func supervise(command []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fail(fault.New("ToolMissing", "", "Starting %s failed: %v", command[0], err))
	}
	main, err := os.StartProcess(path, command, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fail(fault.New("ToolMissing", "", "Starting %s failed: %v", command[0], err))
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(main.Pid, s.(syscall.Signal))
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fail(err)
		case pid == main.Pid:
			return exitCode(status)
		}
	}
}
