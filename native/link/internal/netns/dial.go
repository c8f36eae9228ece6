package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstWait = 30 * time.Millisecond
	maxWait   = time.Second
)

// Dial connects to a TCP address from a socket in the namespace. A sandbox that is being restored loses packets, and the
// kernel repeats a SYN only after a second. So Dial aborts and retries much sooner.
func (ns *Namespace) Dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		attempt, cancel := context.WithTimeout(ctx, wait)
		conn, err := ns.dialOnce(attempt, to)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
}

// dialOnce waits outside the namespace's thread, so that many connections can wait concurrently.
func (ns *Namespace) dialOnce(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	fd, err := ns.socket()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	file := os.NewFile(uintptr(fd), "tcp")
	defer func() { _ = file.Close() }() // FileConn duplicates the descriptor
	if err := connected(ctx, file); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	// A paused sandbox answers no keep-alive probes, and must keep its connections until it is resumed.
	_ = tcp.SetKeepAlive(false)
	return tcp, nil
}

// Listen opens a TCP listener inside the namespace.
func (ns *Namespace) Listen(at netip.AddrPort) (listener *net.TCPListener, err error) {
	ns.Do(func() {
		config := net.ListenConfig{KeepAlive: -1}
		var l net.Listener
		if l, err = config.Listen(context.Background(), "tcp4", at.String()); err == nil {
			listener = l.(*net.TCPListener)
		}
	})
	return listener, err
}

// ListenPacket opens a UDP socket inside the namespace.
func (ns *Namespace) ListenPacket(at netip.AddrPort) (conn *net.UDPConn, err error) {
	ns.Do(func() { conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at)) })
	return conn, err
}

func (ns *Namespace) socket() (fd int, err error) {
	ns.Do(func() {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	})
	return fd, err
}

// connected waits until a connect has completed.
func connected(ctx context.Context, file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			failed = err
		case code != 0:
			failed = syscall.Errno(code)
		default:
			// SO_ERROR is also 0 while the connect is in progress. Only a peer address shows that it has completed.
			_, err := unix.Getpeername(int(fd))
			return err == nil
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}
