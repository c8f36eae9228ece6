package main

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A boundPort reserves an address of the outer namespace, and listens there between open and shut.
type boundPort struct {
	at       netip.AddrPort
	fd       int
	listener *net.TCPListener
}

const backlog = 1024

func bindPort(at netip.AddrPort) (*boundPort, error) {
	p := &boundPort{at: at}
	return p, p.bind()
}

func (p *boundPort) bind() error {
	family, address := unix.AF_INET, unix.Sockaddr(nil)
	if a := p.at.Addr().Unmap(); a.Is4() {
		address = &unix.SockaddrInet4{Port: int(p.at.Port()), Addr: a.As4()}
	} else {
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: int(p.at.Port()), Addr: a.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	// Connections from before may linger; they must not prevent listening again.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := unix.Bind(fd, address); err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("bind", err)
	}
	p.fd = fd
	return nil
}

func (p *boundPort) open() (*net.TCPListener, error) {
	if err := unix.Listen(p.fd, backlog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	file := os.NewFile(uintptr(p.fd), "listener")
	defer func() { _ = file.Close() }() // FileListener duplicates the descriptor
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	p.listener = listener.(*net.TCPListener)
	return p.listener, nil
}

// shut stops listening and binds again, so that the address stays reserved.
func (p *boundPort) shut() error {
	_ = p.listener.Close()
	return p.bind()
}
