// The guest is PID 1 of a sandbox. It starts the image's entrypoint, reaps orphans, runs commands and serves files for
// clients, and takes a new identity when the sandbox is restored as a clone.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"time"

	"ramet.dev/native/guest/internal/control"
	"ramet.dev/native/guest/internal/envd"
	"ramet.dev/native/guest/internal/footprint"
	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/users"
)

func main() {
	footprint.Limit()
	config, err := readConfig(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "ramet-guest: "+err.Error())
		os.Exit(2)
	}
	code, err := run(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ramet-guest: "+err.Error())
	}
	os.Exit(code)
}

const (
	// flushTime is how long the guest waits before it exits. The sandbox's network stack ends with PID 1, and data that
	// was just written must be sent before.
	flushTime = 50 * time.Millisecond
	// identityTimeout is how long the entrypoint waits for the sandbox's identity. It then starts without one, so that it
	// does not depend on a running controller.
	identityTimeout = 200 * time.Millisecond
	// shrinkDelay leaves the CPUs to the entrypoint while it starts.
	shrinkDelay = time.Second
)

func run(config config) (int, error) {
	adoptOrphans()
	config.showTmp()
	if err := limitCommands(); err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	user := users.OfIDs(config.UID, config.GID)
	processes := process.NewTable(config.OutputBytes)
	state := identity.New(config.environment(), user, config.Cwd)

	controlListener, err := net.Listen("tcp", net.JoinHostPort(config.Listen, strconv.Itoa(config.ControlPort)))
	if err != nil {
		return 1, fmt.Errorf("opening the control port: %w", err)
	}
	clientListener, err := net.Listen("tcp", net.JoinHostPort(config.Listen, strconv.Itoa(config.ClientPort)))
	if err != nil {
		return 1, fmt.Errorf("opening the client port: %w", err)
	}
	peer, err := netip.ParseAddr(config.ControlPeer)
	if err != nil {
		return 2, fmt.Errorf("reading the control peer: %w", err)
	}
	go processes.Reap(context.Background())
	madeCwd := config.makeCwd()
	entrypoint := control.NoEntrypoint()
	if len(config.Args) > 0 {
		entrypoint = control.NewEntrypoint(func() (*process.Process, error) {
			if madeCwd != nil {
				return nil, madeCwd
			}
			return processes.Start(config.entrypoint(state, user))
		})
		time.AfterFunc(identityTimeout, entrypoint.Start)
	}
	ports, root := &control.Ports{}, ""
	// As PID 1, the guest has a network and a root of its own.
	if os.Getpid() == 1 {
		ports.File, root = "/proc/sys/net/ipv4/ip_local_port_range", "/"
	}
	if err := ports.Next(); err != nil {
		fmt.Fprintln(os.Stderr, "ramet-guest: "+err.Error())
	}
	clients := newConnections()
	loopback := &control.Loopback{Reserved: []int{config.ControlPort, config.ClientPort}}
	controlServer := &control.Server{
		Identity: state, Processes: processes, Entrypoint: entrypoint,
		Root: root, HookDir: config.HookDir, StateDir: config.StateDir, MarkDir: config.MarkDir, Ports: ports, Loopback: loopback,
		DropClients: func() {
			clients.drop()
			loopback.Drop()
		},
	}
	controlHTTP := &http.Server{Handler: controlServer.Handler(), ReadHeaderTimeout: 10 * time.Second}
	clientHTTP := &http.Server{
		Handler:           envd.New(processes, state).Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         clients.track,
	}
	failed := make(chan error, 2)
	go func() { failed <- controlHTTP.Serve(control.OnlyFrom(controlListener, peer)) }()
	go func() { failed <- clientHTTP.Serve(clientListener) }()
	time.AfterFunc(shrinkDelay, footprint.Shrink)
	code, err := supervise(config, entrypoint, signals, failed)
	// Callers that wait for the entrypoint get its exit code before the sandbox ends.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_ = controlHTTP.Shutdown(ctx)
	time.Sleep(flushTime)
	return code, err
}
