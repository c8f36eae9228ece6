package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"ramet.dev/native/internal/proxy"
	"ramet.dev/native/link/internal/credentials"
)

const (
	// maxIntercepted limits the connections whose requests link reads: each one needs about 100 KB.
	maxIntercepted = 256
	// maxRequests limits the requests on them. One connection of HTTP/2 has many.
	maxRequests = 1024
)

// intercepts holds the rules for credentials, which exist only in this process, and the connections that they apply to.
type intercepts struct {
	rules    atomic.Pointer[credentials.Rules]
	slots    chan struct{}
	requests chan struct{}

	mu   sync.Mutex
	open map[*net.TCPConn]egressPair
}

func (i *intercepts) add(conn *net.TCPConn, about egressPair) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open == nil {
		i.open = map[*net.TCPConn]egressPair{}
	}
	i.open[conn] = about
}

func (i *intercepts) remove(conn *net.TCPConn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.open, conn)
}

func (i *intercepts) cut(selected func(egressPair) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for conn, about := range i.open {
		if selected(about) {
			proxy.Reset(conn)
		}
	}
}

// intercept serves a connection to a domain that has a rule for credentials, and reports whether it has. Such a connection goes to
// an address that link itself has resolved from the name, and to no other one.
func (e *egress) intercept(ctx context.Context, inner *net.TCPConn, to netip.AddrPort, first *opening) bool {
	rules := e.intercepts.rules.Load()
	if !rules.Concerns(to.Port()) {
		return false
	}
	name := first.read(inner)
	isTLS := len(first.bytes) > 0 && first.bytes[0] == tlsHandshake
	if name == "" || isTLS && rules.Authority == nil || rules.Headers(name, to.Port(), isTLS) == nil {
		return false
	}
	about := egressPair{to: e.resolve(ctx, name, to.Port()), names: []string{name}}
	if !e.permits(e.decide(about), name+", which has credentials,") {
		e.denied.Add(1)
		proxy.Reset(inner)
		return true
	}
	select {
	case e.intercepts.slots <- struct{}{}:
		defer func() { <-e.intercepts.slots }()
	default:
		e.overLimit.Add(1)
		proxy.Reset(inner)
		return true
	}
	e.allowed.Add(1)
	e.serveIntercepted(inner, about, isTLS, first.bytes)
	return true
}

func (e *egress) serveIntercepted(inner *net.TCPConn, about egressPair, isTLS bool, early []byte) {
	e.intercepts.add(inner, about)
	defer e.intercepts.remove(inner)
	permitted := func() bool { return e.gate.isOpen() && e.decide(about).Allowed }
	// After it was added, so that a change since the decision takes effect.
	if !permitted() {
		proxy.Reset(inner)
		return
	}
	connection := credentials.Connection{
		Inner:  &replayed{TCPConn: inner, first: bytes.NewReader(early)},
		Domain: about.names[0],
		Port:   about.to.Port(),
		TLS:    isTLS,
		Dial: func(ctx context.Context) (net.Conn, error) {
			if !permitted() {
				return nil, errors.New("the egress policy does not allow it")
			}
			return e.dialCounted(ctx, about.to)
		},
		Current:  e.intercepts.rules.Load,
		Requests: e.intercepts.requests,
	}
	connection.Serve()
}

// dialCounted connects for a request. Each connection counts against the sandbox's limit: one connection
// of the sandbox can need many.
func (e *egress) dialCounted(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	select {
	case e.slots <- struct{}{}:
	default:
		e.overLimit.Add(1)
		return nil, errors.New("the sandbox has too many connections")
	}
	free := sync.OnceFunc(func() { <-e.slots })
	ctx, cancel := context.WithTimeout(ctx, egressTimeout)
	defer cancel()
	conn, err := e.dial(ctx, to)
	if err != nil {
		free()
		e.failed.Add(1)
		return nil, err
	}
	return &counted{Conn: conn, bytes: &e.bytes, free: free}, nil
}

// resolve returns an address of a name; one that every policy rejects if it has none.
func (e *egress) resolve(ctx context.Context, name string, port uint16) netip.AddrPort {
	nowhere := netip.AddrPortFrom(netip.IPv4Unspecified(), port)
	if !e.policy.Load().Question(name) {
		return nowhere
	}
	addresses, err := e.relay.Lookup(ctx, name)
	if err != nil || len(addresses) == 0 {
		return nowhere
	}
	return netip.AddrPortFrom(addresses[0], port)
}

// An opening is the start of a connection in which the client names its host. It is read at most once.
type opening struct {
	done  bool
	name  string
	bytes []byte
}

func (o *opening) read(conn *net.TCPConn) string {
	if !o.done {
		o.name, o.bytes = readAnnouncedName(conn)
		o.done = true
	}
	return o.name
}

// A replayed connection returns first what was already read.
type replayed struct {
	*net.TCPConn
	first *bytes.Reader
}

func (r *replayed) Read(into []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(into)
	}
	return r.TCPConn.Read(into)
}

// WriteTo hides that of the TCP connection, which would skip the first bytes.
func (r *replayed) WriteTo(to io.Writer) (int64, error) {
	return io.Copy(to, struct{ io.Reader }{r})
}

type counted struct {
	net.Conn
	bytes *proxy.Bytes
	free  func()
}

func (c *counted) Close() error {
	defer c.free()
	return c.Conn.Close()
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.bytes.Back.Add(int64(n))
	return n, err
}

func (c *counted) Write(from []byte) (int, error) {
	n, err := c.Conn.Write(from)
	c.bytes.There.Add(int64(n))
	return n, err
}
