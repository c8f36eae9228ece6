package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"ramet.dev/native/internal/loopback"
	"ramet.dev/native/internal/proxy"
	"ramet.dev/native/link/internal/fault"
	"ramet.dev/native/link/internal/netns"
)

const (
	// controlPort is the guest's control port, for the cell only.
	controlPort = 49982
	// clientPort is the guest's port for clients.
	clientPort    = 49983
	headerTimeout = 10 * time.Second
	dialTimeout   = 5 * time.Second
	// maxHeaderBytes is far more than a header needs.
	maxHeaderBytes = 512
	unixPathMax    = 107
	// maxIngress limits the connections of clients to one sandbox. Further connections are refused.
	maxIngress = 2048
)

// An ingress proxies connections from outside to the sandbox's ports.
type ingress struct {
	pair  *netns.Pair
	gate  *gate
	pairs proxy.Pairs[ingressPair]
	// slots bounds the connections of clients. The cell's own are not counted, so that clients cannot keep it out.
	slots chan struct{}
}

func newIngress(pair *netns.Pair, g *gate) *ingress {
	return &ingress{pair: pair, gate: g, slots: make(chan struct{}, maxIngress)}
}

// take reserves a slot for a connection of a client. Call release when the connection has ended.
func (in *ingress) take() (release func(), ok bool) {
	select {
	case in.slots <- struct{}{}:
		return func() { <-in.slots }, true
	default:
		return nil, false
	}
}

type ingressPair struct{ control bool }

type ingressHeader struct {
	Port    uint16 `json:"port"`
	Control bool   `json:"control"`
}

type answer struct {
	ID *int64 `json:"id,omitempty"`
	OK bool   `json:"ok,omitempty"`
	// Report answers the operation "report".
	Report *egressReport `json:"report,omitempty"`
	// Certificate answers the operation "credentials" if link has a CA.
	Certificate string       `json:"certificate,omitempty"`
	Error       *fault.Fault `json:"error,omitempty"`
}

// serveSocket accepts connections on a Unix socket that only this user can open.
func (in *ingress) serveSocket(path string) error {
	if len(path) > unixPathMax {
		return fault.New("InvalidArgument", "Use a shorter directory path", "Opening the ingress socket failed: its path has more than %d bytes", unixPathMax)
	}
	mask := syscall.Umask(0o177)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(mask)
	if err != nil {
		return listenFault("Opening the ingress socket "+path, err)
	}
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			go in.serve(conn)
		}
	}()
	return nil
}

func (in *ingress) serve(conn *net.UnixConn) {
	_ = conn.SetReadDeadline(time.Now().Add(headerTimeout))
	reader := bufio.NewReaderSize(conn, maxHeaderBytes)
	header, f := readHeader(reader)
	if f != nil {
		refuse(conn, f)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if f := in.permitted(header); f != nil {
		refuse(conn, f)
		return
	}
	if !header.Control {
		release, ok := in.take()
		if !ok {
			refuse(conn, fault.New("Unavailable", "Close connections, or try again later", "Connecting to port %d of the sandbox failed: it has %d open connections", header.Port, maxIngress))
			return
		}
		defer release()
	}
	inner, err := in.dial(header.Port)
	if errors.Is(err, syscall.ECONNREFUSED) && !header.Control && header.Port != clientPort {
		inner, err = in.dialLoopback(header.Port)
	}
	if err != nil {
		refuse(conn, dialFault(header.Port, err))
		return
	}
	early, _ := reader.Peek(reader.Buffered())
	if _, err := inner.Write(early); err != nil {
		proxy.Reset(inner)
		refuse(conn, dialFault(header.Port, err))
		return
	}
	writeLine(conn, answer{OK: true})
	in.proxy(conn, inner, header.Control)
}

// readHeader reads the first line. The bytes after it belong to the sandbox.
func readHeader(reader *bufio.Reader) (ingressHeader, *fault.Fault) {
	var header ingressHeader
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return header, fault.New("InvalidArgument", "", "Reading the first line of the connection failed: %v", err)
	}
	if err := json.Unmarshal(line, &header); err != nil || header.Port == 0 {
		return header, fault.New("InvalidArgument", "", `Reading the first line of the connection failed: it is not {"port":…,"control":…}`)
	}
	return header, nil
}

func (in *ingress) permitted(header ingressHeader) *fault.Fault {
	if header.Control {
		return nil
	}
	if header.Port == controlPort {
		return fault.New("Forbidden", "", "Connecting to port %d of the sandbox failed: only the cell may connect to it", controlPort)
	}
	if !in.gate.isOpen() {
		return fault.New("SandboxNotReady", "Wait until the sandbox is Ready", "Connecting to port %d of the sandbox failed: its network is closed", header.Port)
	}
	return nil
}

// listenPort proxies connections to a declared container port while the gate is open. The address is bound immediately,
// so that a port in use is an error at the start. While the gate is closed, clients are rejected.
func (in *ingress) listenPort(at netip.AddrPort) error {
	port, err := bindPort(at)
	if err != nil {
		return listenFault("Listening on "+at.String(), err)
	}
	in.gate.onChange(func(open bool) error {
		if !open {
			if err := port.shut(); err != nil {
				return listenFault("Listening on "+at.String(), err)
			}
			return nil
		}
		listener, err := port.open()
		if err != nil {
			return listenFault("Listening on "+at.String(), err)
		}
		go in.accept(listener, at.Port())
		return nil
	})
	return nil
}

func (in *ingress) accept(listener *net.TCPListener, port uint16) {
	for {
		conn, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // out of descriptors: wait until connections close
			continue
		}
		release, ok := in.take()
		if !ok {
			proxy.Reset(conn)
			continue
		}
		go func() {
			defer release()
			inner, err := in.dial(port)
			if err != nil {
				proxy.Reset(conn)
				return
			}
			in.proxy(conn, inner, false)
		}()
	}
}

// cutClients resets the connections of clients. The cell's own connections stay open.
func (in *ingress) cutClients() { in.pairs.Cut(func(c ingressPair) bool { return !c.control }) }

func (in *ingress) proxy(outer, inner proxy.Conn, control bool) {
	in.pairs.Run(ingressPair{control: control}, outer, inner, func() bool { return control || in.gate.isOpen() })
}

func (in *ingress) dial(port uint16) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return in.pair.Gateway.Dial(ctx, netip.AddrPortFrom(netns.SandboxAddress, port))
}

// dialLoopback connects through the guest to a program that listens only on a loopback address of the sandbox. It is for
// authorized clients only: a declared port at the Pod's address has no authorization, and works as in any other Pod.
func (in *ingress) dialLoopback(port uint16) (*net.TCPConn, error) {
	conn, err := in.dial(controlPort)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	if err := loopback.Connect(conn, port); err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

func dialFault(port uint16, err error) *fault.Fault {
	const what = "Connecting to port %d of the sandbox failed: "
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.New("Unavailable", "Start a server on that port", what+"nothing listens there", port)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ETIMEDOUT):
		return fault.New("Unavailable", "", what+"it did not respond", port)
	}
	return fault.New("Unavailable", "", what+"%v", port, err)
}

func listenFault(what string, err error) *fault.Fault {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.New("Conflict", "Stop the program that listens there, or declare another port", "%s failed: it is in use", what)
	case errors.Is(err, syscall.EACCES):
		return fault.New("HostUnsupported", "Declare a port from 1024 up, or run as root", "%s failed: permission denied", what)
	}
	return fault.New("InvalidArgument", "", "%s failed: %v", what, err)
}

func refuse(conn net.Conn, f *fault.Fault) {
	writeLine(conn, answer{Error: f})
	_ = conn.Close()
}

func writeLine(conn net.Conn, value any) {
	line, err := json.Marshal(value)
	if err != nil {
		return
	}
	_, _ = conn.Write(append(line, '\n'))
}
