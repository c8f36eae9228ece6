// Package pod runs a command in namespaces of its own: on one machine, what a Pod's sandbox is on a node.
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
	// failed is the exit code when the namespaces could not be made; env(1) and its like use it so.
	failed = 125
)

// Main parses the arguments of `ramet-link pod`, runs the command, and returns its exit code. It is called on a thread
// that lives as long as the process: the child dies with that thread.
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

// fail prints the one line by which the caller tells a refusal from the command's own words.
func fail(err error) int {
	f := fault.From(err)
	fmt.Fprintln(os.Stderr, line(map[string]string{"event": "error", "code": f.Code, "message": f.Message, "hint": f.Hint}))
	return failed
}

// A plan is what the outer process tells the inner one, as JSON.
type plan struct {
	UserNamespace bool     `json:"userNamespace"`
	Hostname      string   `json:"hostname,omitempty"`
	Binds         []bind   `json:"binds,omitempty"`
	Hide          []string `json:"hide,omitempty"`
	Command       []string `json:"command"`
}

type bind struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

func parse(args []string) (plan, error) {
	p := plan{UserNamespace: os.Geteuid() != 0}
	flags := flag.NewFlagSet("ramet-link pod", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&p.UserNamespace, "rootless", p.UserNamespace, "make a user namespace, also as root")
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
	flags.Func("hide", "path: show an empty folder there", func(text string) error {
		p.Hide = append(p.Hide, text)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return p, fault.New("InvalidArgument", "", "Reading the arguments of ramet-link pod failed: %v", err)
	}
	if p.Command = flags.Args(); len(p.Command) == 0 {
		return p, fault.New("InvalidArgument", "Write the command after --", "Reading the arguments of ramet-link pod failed: there is no command")
	}
	return p, nil
}

func run(p plan) (int, error) {
	// Taken before the child is there, so that no signal falls between.
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
	// The write end stays open as long as this process lives: its end is the child's sign to go.
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

// forwarded are the signals that are meant for the command.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// exitCode is a shell's: 128 and the signal for a process that a signal ended.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// ReadFault reads back what a failed pod printed.
func ReadFault(stderr []byte) error {
	for text := range bytes.Lines(stderr) {
		var f fault.Fault
		if json.Unmarshal(text, &f) == nil && f.Code != "" {
			return &f
		}
	}
	return fmt.Errorf("the pod failed: %s", bytes.TrimSpace(stderr))
}
