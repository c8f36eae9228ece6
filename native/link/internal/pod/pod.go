// Package pod runs a command in new namespaces: on one machine it stands in for the Pod sandbox of a node.
package pod

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

const (
	// InitName is the subcommand under which link runs itself as process 1 of the new namespaces.
	InitName = "pod-init"
	// failed is the exit code if the namespaces cannot be created, as for env(1).
	failed = 125
)

// Main parses the arguments of `ramet-link pod`, runs the command, and returns its exit code. Call it on a thread that
// exists as long as the process: the child is killed with that thread.
func Main(args []string) int {
	plan, err := parse(args)
	if err == nil {
		var code int
		if code, err = run(plan); err == nil {
			return code
		}
	}
	return fail(err)
}

// fail prints the line that distinguishes an error of link from the command's output.
func fail(err error) int {
	f := fault.From(err)
	fmt.Fprintln(os.Stderr, line(map[string]string{"event": "error", "code": f.Code, "message": f.Message, "hint": f.Hint}))
	return failed
}

// A plan is passed from the outer process to the inner one, as JSON.
type plan struct {
	UserNamespace bool     `json:"userNamespace"`
	Hostname      string   `json:"hostname,omitempty"`
	Binds         []bind   `json:"binds,omitempty"`
	Hide          []string `json:"hide,omitempty"`
	Command       []string `json:"command"`
}

type bind struct {
	Source string `json:"source"`
	// Below is a path below Source. No component of it may be a symbolic link: others can write there.
	Below    string `json:"below,omitempty"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

func parse(args []string) (plan, error) {
	p := plan{UserNamespace: os.Geteuid() != 0}
	flags := flag.NewFlagSet("ramet-link pod", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&p.UserNamespace, "rootless", p.UserNamespace, "create a user namespace, also as root")
	flags.StringVar(&p.Hostname, "hostname", "", "host name inside")
	flags.Func("bind", "src:dst[:ro]: show src at dst", func(text string) error {
		parts := strings.Split(text, ":")
		b := bind{ReadOnly: len(parts) == 3 && parts[2] == "ro"}
		if len(parts) != 2 && !b.ReadOnly || !strings.HasPrefix(parts[0], "/") || !strings.HasPrefix(parts[1], "/") {
			return errors.New("not /source:/target or /source:/target:ro")
		}
		b.Source, b.Target = parts[0], parts[1]
		p.Binds = append(p.Binds, b)
		return nil
	})
	flags.Func("bind-below", "JSON {source, below, target, readOnly}: show a path below source, without following links, and create it", func(text string) error {
		var b bind
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			return err
		}
		if !strings.HasPrefix(b.Source, "/") || !strings.HasPrefix(b.Target, "/") {
			return errors.New("source and target must be absolute")
		}
		p.Binds = append(p.Binds, b)
		return nil
	})
	flags.Func("hide", "path: show an empty directory there", func(text string) error {
		p.Hide = append(p.Hide, text)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return p, fault.New("InvalidArgument", "", "Reading the arguments of ramet-link pod failed: %v", err)
	}
	if p.Command = flags.Args(); len(p.Command) == 0 {
		return p, fault.New("InvalidArgument", "Write the command after --", "Reading the arguments of ramet-link pod failed: no command is given")
	}
	return p, nil
}

// refuseCoreDumps keeps the memory of the sandbox out of core files: of this process and of all that it starts. The kernel
// takes a limit of 1 byte, and no other, as a reason not to start a program of core_pattern either (fs/coredump.c).
func refuseCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
		return refused("Refusing core dumps", err)
	}
	return nil
}

func run(p plan) (int, error) {
	if err := refuseCoreDumps(); err != nil {
		return 0, err
	}
	// Registered before the child starts, so that no signal is lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)

	planRead, planWrite, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	child := exec.Command("/proc/self/exe", InitName)
	child.Args[0] = "ramet-link"
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{planRead}
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if p.UserNamespace {
		child.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	}
	if err := child.Start(); err != nil {
		return 0, refusal(p.UserNamespace, err)
	}
	_ = planRead.Close()
	if p.UserNamespace {
		if err := mapIDs(child.Process.Pid); err != nil {
			_ = child.Process.Kill()
			_ = child.Wait()
			return 0, err
		}
	}
	// The write end stays open while this process runs: the child exits when it closes.
	if _, err := planWrite.WriteString(line(p) + "\n"); err != nil {
		return 0, fault.New("Internal", "", "Starting the first process of the pod failed: %v", err)
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	_ = child.Wait()
	_ = planWrite.Close()
	return exitCode(child.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// forwarded are the signals that are passed to the command.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// exitCode is as in a shell: 128 plus the signal's number for a process that a signal killed.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// ReadFault parses the output of a failed pod.
func ReadFault(stderr []byte) error {
	for text := range bytes.Lines(stderr) {
		var f fault.Fault
		if json.Unmarshal(text, &f) == nil && f.Code != "" {
			return &f
		}
	}
	return fmt.Errorf("the pod failed: %s", bytes.TrimSpace(stderr))
}
