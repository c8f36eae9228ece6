package control

import (
	"net"
	"net/netip"
)

// OnlyFrom makes a listener that hangs up on every peer but one, before reading a byte.
func OnlyFrom(listener net.Listener, peer netip.Addr) net.Listener {
	return &guarded{Listener: listener, peer: peer}
}

type guarded struct {
	net.Listener
	peer netip.Addr
}

func (g *guarded) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, ok := connection.RemoteAddr().(*net.TCPAddr); ok && from.AddrPort().Addr().Unmap() == g.peer {
			return connection, nil
		}
		_ = connection.Close()
	}
}
