// Package carry moves bytes between two stream connections and remembers which it carries, so that they can be cut.
package carry

import (
	"io"
	"net"
	"sync"
)

// A Conn is a stream of which one direction can be closed: *net.TCPConn and *net.UnixConn.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Carried are the pairs of connections under way, each with what its owner wants to know of it.
type Carried[T any] struct {
	mu    sync.Mutex
	pairs map[*pair[T]]struct{}
}

type pair[T any] struct {
	about T
	a, b  Conn
}

// Run carries bytes both ways until both directions have ended or the pair is cut; it closes both connections. The check
// runs when the pair can already be cut, so that no change of mind between a decision and here is missed.
func (c *Carried[T]) Run(about T, a, b Conn, check func() bool) {
	p := &pair[T]{about: about, a: a, b: b}
	c.mu.Lock()
	if c.pairs == nil {
		c.pairs = map[*pair[T]]struct{}{}
	}
	c.pairs[p] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pairs, p)
		c.mu.Unlock()
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

// Cut resets every pair for which which says so.
func (c *Carried[T]) Cut(which func(T) bool) {
	c.mu.Lock()
	var cut []*pair[T]
	for p := range c.pairs {
		if which(p.about) {
			cut = append(cut, p)
		}
	}
	c.mu.Unlock()
	for _, p := range cut {
		Reset(p.a)
		Reset(p.b)
	}
}

// Reset ends a connection so that the other side sees an error and no orderly end.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// oneWay copies until the source ends, and hands the end on. io.Copy lets the kernel splice between sockets.
func oneWay(to, from Conn) {
	if _, err := io.Copy(to, from); err != nil {
		// One side failed: the other must not believe that the stream is whole.
		Reset(to)
		Reset(from)
		return
	}
	_ = to.CloseWrite()
}
