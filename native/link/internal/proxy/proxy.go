// Package proxy copies bytes between two stream connections and tracks the open pairs, so that they can be reset.
package proxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// A Conn is a stream that supports half-close: *net.TCPConn and *net.UnixConn.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Pairs holds the open pairs of connections. Each pair has a value that its owner chooses.
type Pairs[T any] struct {
	mu   sync.Mutex
	open map[*pair[T]]struct{}
}

type pair[T any] struct {
	about T
	a, b  Conn
}

// Run copies bytes in both directions until both have ended or the pair is cut, and closes both connections. The check
// runs after the pair is registered, so that a policy change since the decision takes effect.
func (ps *Pairs[T]) Run(about T, a, b Conn, check func() bool) {
	p := &pair[T]{about: about, a: a, b: b}
	ps.mu.Lock()
	if ps.open == nil {
		ps.open = map[*pair[T]]struct{}{}
	}
	ps.open[p] = struct{}{}
	ps.mu.Unlock()
	defer func() {
		ps.mu.Lock()
		delete(ps.open, p)
		ps.mu.Unlock()
		_, _ = a.Close(), b.Close()
	}()
	if !check() {
		Reset(a)
		Reset(b)
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); oneWay(b, a) }()
	oneWay(a, b)
	<-done
}

// Cut resets every pair whose value is selected.
func (ps *Pairs[T]) Cut(selected func(T) bool) {
	ps.mu.Lock()
	var cut []*pair[T]
	for p := range ps.open {
		if selected(p.about) {
			cut = append(cut, p)
		}
	}
	ps.mu.Unlock()
	for _, p := range cut {
		Reset(p.a)
		Reset(p.b)
	}
}

// halfOpenTimeout limits how long one direction stays open after the other has ended: link cannot see whether the client
// that sent everything still waits. A peer that has disappeared is found by the keep-alive probes of Go's connections.
var halfOpenTimeout = time.Hour

// Reset closes a connection with an error instead of an orderly end.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// oneWay copies until the source ends, and then closes the other side. io.Copy lets the kernel splice between sockets.
func oneWay(to, from Conn) {
	if _, err := io.Copy(to, from); err != nil {
		// One side failed: the other side must not see an orderly end.
		Reset(to)
		Reset(from)
		return
	}
	_ = to.CloseWrite()
	_ = to.SetReadDeadline(time.Now().Add(halfOpenTimeout))
}
