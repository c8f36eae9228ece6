// Package carry copies bytes between two stream connections and tracks the open pairs, so that they can be reset.
package carry

import (
	"io"
	"net"
	"sync"
)

// A Conn is a stream that supports half-close: *net.TCPConn and *net.UnixConn.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Carried holds the open pairs of connections, each with a value of its owner.
type Carried[T any] struct {
	mu    sync.Mutex
	pairs map[*pair[T]]struct{}
}

type pair[T any] struct {
	about T
	a, b  Conn
}

// Run copies bytes in both directions until both have ended or the pair is cut, and closes both connections. The check
// runs after the pair is registered, so that a policy change since the decision takes effect.
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

// Cut resets every pair that which selects.
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
}
