package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/users"
)

// config is read from the command line, or from the JSON file given by `--config`, with the same names.
type config struct {
	// Args is the command line of the entrypoint. Without it, the guest only serves clients.
	Args []string `json:"args"`
	// Env is added to the guest's own environment and overrides it.
	Env map[string]string `json:"env"`
	// Cwd is the working directory of the entrypoint, and the default of commands.
	Cwd                string `json:"cwd"`
	UID                uint32 `json:"uid"`
	GID                uint32 `json:"gid"`
	ExitWithEntrypoint bool   `json:"exitWithEntrypoint"`
	ControlPeer        string `json:"controlPeer"`
	ControlPort        int    `json:"controlPort"`
	ClientPort         int    `json:"clientPort"`
	// Listen is the address of both ports. If empty, they listen on all addresses.
	Listen string `json:"listen"`
	// OutputBytes is the size of each command's output buffer, for clients that connect later.
	OutputBytes int    `json:"outputBytes"`
	HookDir     string `json:"hookDir"`
	StateDir    string `json:"stateDir"`
	MarkDir     string `json:"markDir"`
	// DiskTmp shows the root's /tmp in place of the one that gVisor keeps in memory.
	DiskTmp bool `json:"diskTmp"`
}

func readConfig(arguments []string) (config, error) {
	c := config{
		ControlPeer: "169.254.17.1",
		ControlPort: 49982,
		ClientPort:  49983,
		OutputBytes: 1 << 20,
		HookDir:     "/etc/ramet/on-restore.d",
		StateDir:    "/run/ramet",
		MarkDir:     "/run/e2b",
	}
	flags := flag.NewFlagSet("ramet-guest", flag.ContinueOnError)
	file := flags.String("config", "", "JSON file with the same settings; flags take precedence")
	uid := flags.Uint("uid", uint(os.Getuid()), "user ID of the entrypoint, and the default of commands")
	gid := flags.Uint("gid", uint(os.Getgid()), "group ID of the entrypoint")
	flags.StringVar(&c.Cwd, "cwd", "", "working directory of the entrypoint and of commands")
	flags.BoolVar(&c.ExitWithEntrypoint, "exit-with-entrypoint", false, "exit when the entrypoint exits, with its exit code")
	flags.StringVar(&c.ControlPeer, "control-peer", c.ControlPeer, "the only address that can connect to the control port")
	flags.IntVar(&c.ControlPort, "control-port", c.ControlPort, "port for the cell")
	flags.IntVar(&c.ClientPort, "client-port", c.ClientPort, "port for clients")
	flags.StringVar(&c.Listen, "listen", "", "address of both ports; all if empty")
	flags.IntVar(&c.OutputBytes, "output-bytes", c.OutputBytes, "size of each command's output buffer")
	flags.StringVar(&c.HookDir, "hook-dir", c.HookDir, "directory of programs to run when the sandbox is restored as a clone")
	flags.StringVar(&c.StateDir, "state-dir", c.StateDir, "directory for identity and generation")
	flags.StringVar(&c.MarkDir, "mark-dir", c.MarkDir, "directory for the variables of E2B")
	flags.BoolVar(&c.DiskTmp, "disk-tmp", false, "remove the file system that gVisor mounts at an empty /tmp")
	if err := flags.Parse(arguments); err != nil {
		return c, err
	}
	c.UID, c.GID = uint32(*uid), uint32(*gid)
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			return c, fmt.Errorf("reading the configuration: %w", err)
		}
		if err := json.Unmarshal(text, &c); err != nil {
			return c, fmt.Errorf("reading the configuration %s: %w", *file, err)
		}
		if err := flags.Parse(arguments); err != nil {
			return c, err
		}
		flags.Visit(func(f *flag.Flag) {
			switch f.Name {
			case "uid":
				c.UID = uint32(*uid)
			case "gid":
				c.GID = uint32(*gid)
			}
		})
	}
	if flags.NArg() > 0 {
		c.Args = flags.Args()
	}
	if c.OutputBytes < 64<<10 {
		return c, errors.New("output-bytes must be at least 65536")
	}
	return c, nil
}

// environment returns the guest's own environment and that of the configuration, which takes precedence.
func (c config) environment() []string {
	all := os.Environ()
	for key, value := range c.Env {
		all = append(all, key+"="+value)
	}
	return all
}

// makeCwd creates the working directory, as other container runtimes do.
func (c config) makeCwd() error {
	if c.Cwd == "" {
		return nil
	}
	if err := os.MkdirAll(c.Cwd, 0o755); err != nil {
		return fmt.Errorf("creating the working directory failed: %w", err)
	}
	return nil
}

// entrypoint returns the entrypoint's process. The container's environment takes precedence over the user's HOME.
func (c config) entrypoint(state *identity.State, user users.User) process.Spec {
	declared := map[string]string{}
	for _, entry := range c.environment() {
		if key, value, ok := strings.Cut(entry, "="); ok {
			declared[key] = value
		}
	}
	dir := c.Cwd
	if dir == "" {
		dir = "/"
	}
	return process.Spec{
		Command: c.Args[0],
		Args:    c.Args[1:],
		Env:     state.CommandEnvironment(user, declared),
		Dir:     dir,
		User:    user,
		Inherit: true,
		Hidden:  true,
	}
}

// showTmp unmounts the file system that gVisor mounts at an empty /tmp, which is in memory and bounded by nothing else. The /tmp
// of the root is on disk with all other files. gVisor mounts none if the image has files there. Where it
// cannot be removed, it stays.
func (c config) showTmp() {
	if !c.DiskTmp || os.Getpid() != 1 {
		return
	}
	// UMOUNT_NOFOLLOW of <linux/fs.h>: a link leads to a directory where a volume may be.
	const noFollow = 8
	info, err := os.Lstat("/tmp")
	if err != nil || !info.IsDir() || syscall.Unmount("/tmp", noFollow) != nil {
		return
	}
	const mode = 0o777 | os.ModeSticky
	if err := os.Chmod("/tmp", mode); err != nil {
		fmt.Fprintln(os.Stderr, "ramet-guest: "+err.Error())
	}
}
