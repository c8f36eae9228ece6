// Package proxy copies bytes between two stream connections and tracks the open pairs, so that they can be reset.
package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Conn is a stream that supports half-close: *net.TCPConn and *net.UnixConn.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Pairs holds the open pairs of connections. Each pair has a value that its owner chooses.
type Pairs[T any] struct {
	// Count counts the bytes of the pairs, also of the open ones. Without it, nothing is counted.
	Count *Bytes

	mu   sync.Mutex
	open map[*pair[T]]struct{}
}

// Bytes is what was copied from the first connection of each pair to the second one, and back.
type Bytes struct{ There, Back atomic.Int64 }

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
	var there, back *atomic.Int64
	if ps.Count != nil {
		there, back = &ps.Count.There, &ps.Count.Back
	}
	done := make(chan struct{})
	go func() { defer close(done); oneWay(b, a, there) }()
	oneWay(a, b, back)
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
func oneWay(to, from Conn, count *atomic.Int64) {
	if err := copyAll(to, from, count); err != nil {
		// One side failed: the other side must not see an orderly end.
		Reset(to)
		Reset(from)
		return
	}
	_ = to.CloseWrite()
	_ = to.SetReadDeadline(time.Now().Add(halfOpenTimeout))
}

func copyAll(to, from Conn, count *atomic.Int64) error {
	source, ok := from.(syscall.Conn)
	if count == nil || !ok {
		_, err := io.Copy(to, from)
		return err
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return err
	}
	for {
		// Copying what has arrived keeps the count current without a buffer for each of many idle connections.
		arrived, err := untilReadable(raw)
		if err != nil || arrived == 0 {
			return err
		}
		n, err := io.CopyN(to, from, int64(arrived))
		count.Add(n)
		if err != nil {
			return err
		}
	}
}

// untilReadable waits, and returns how many bytes can be read. 0 is the orderly end.
func untilReadable(raw syscall.RawConn) (arrived int, err error) {
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err == unix.EAGAIN || err == unix.EINTR {
			return false
		}
		if failed = err; err == nil && n > 0 {
			arrived, failed = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	return arrived, failed
}
