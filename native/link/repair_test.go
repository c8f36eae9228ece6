package main

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// repaired makes a TCP connection that believes to be established, without a word to the other side (TCP_REPAIR, tcp(7)):
// what a restored sandbox has in its memory.
func repaired(local, remote string) (net.Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "repaired")
	defer func() { _ = file.Close() }()
	steps := []func() error{
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) },
		func() error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) },
		func() error { return unix.Bind(fd, address(local)) },
		func() error { return unix.Connect(fd, address(remote)) },
		func() error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 0) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return net.FileConn(file)
}

func address(text string) unix.Sockaddr {
	at := netip.MustParseAddrPort(text)
	return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
}
