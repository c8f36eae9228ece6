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

// The plan is read from the first descriptor after stderr, which stays open while the outer process runs.
const planFd = 3

// Init is process 1 of the pod. In a user namespace it runs twice: a process gets the namespace's capabilities only when
// it is executed as the namespace's root, and it becomes root only when its ids are mapped.
func Init() int {
	unix.CloseOnExec(planFd)
	outer := os.NewFile(planFd, "plan")
	text := os.Getenv(planVariable)
	if text == "" {
		read, err := bufio.NewReader(outer).ReadString('\n')
		if err != nil {
			return failed // the outer process has failed and reports the reason
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

// planVariable passes the plan to the second execution.
const planVariable = "RAMET_POD_PLAN"

func again(plan string) error {
	if _, err := unix.FcntlInt(planFd, unix.F_SETFD, 0); err != nil {
		return err
	}
	err := syscall.Exec("/proc/self/exe", []string{"ramet-link", InitName}, append(os.Environ(), planVariable+"="+plan))
	return fault.New("HostUnsupported", "", "Starting the first process of the pod failed: %v", err)
}

// dieWith ends the pod when the outer process has exited. PR_SET_PDEATHSIG does so too, but the kernel clears it when a
// process gains capabilities, as in the second execution.
func dieWith(outer *os.File) {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	go func() {
		_, _ = io.Copy(io.Discard, outer)
		os.Exit(128 + int(syscall.SIGKILL))
	}()
}

// supervise runs the command, forwards signals to it, reaps orphans, and exits with the command's exit code. With process
// 1 the kernel ends all other processes of the namespace.
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
