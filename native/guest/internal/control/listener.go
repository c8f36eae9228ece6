package control

import (
	"net"
	"net/netip"
)

// OnlyFrom returns a listener that closes the connections of all peers but one, before it reads a byte.
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
