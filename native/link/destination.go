package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// originalDestination returns the address that the sandbox connected to before the redirect.
func originalDestination(conn *net.TCPConn) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var to unix.RawSockaddrInet4
	var errno error
	err = raw.Control(func(fd uintptr) {
		size := uint32(unix.SizeofSockaddrInet4)
		_, _, code := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_IP, unix.SO_ORIGINAL_DST,
			uintptr(unsafe.Pointer(&to)), uintptr(unsafe.Pointer(&size)), 0)
		if code != 0 {
			errno = code
		}
	})
	if err = errors.Join(err, errno); err != nil {
		return netip.AddrPort{}, err
	}
	port := (*[2]byte)(unsafe.Pointer(&to.Port))
	return netip.AddrPortFrom(netip.AddrFrom4(to.Addr), binary.BigEndian.Uint16(port[:])), nil
}

// ownAddresses returns the addresses of link's namespace: the Pod's or the machine's.
type ownAddresses struct {
	mu  sync.Mutex
	at  time.Time
	all []netip.Addr
}

// ownAddressesFor is how long the list is cached: addresses change rarely, and reading them is expensive.
const ownAddressesFor = 2 * time.Second

func (o *ownAddresses) list() []netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Sub(o.at) < ownAddressesFor {
		return o.all
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return o.all
	}
	o.at, o.all = now, nil
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			o.all = append(o.all, prefix.Addr().Unmap())
		}
	}
	return o.all
}
