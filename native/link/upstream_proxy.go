package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	socks "golang.org/x/net/proxy"

	"ramet.dev/native/link/internal/fault"
)

// A proxySpec names a SOCKS5 proxy through which all allowed connections leave. Its credentials exist only in this process.
type proxySpec struct {
	Address  string `json:"address"`
	Username string `json:"username"`
	Password string `json:"password"`
}

type upstreamProxy struct {
	host string
	port uint16
	auth *socks.Auth
}

const maxProxyField = 255 // RFC 1929

func parseProxy(spec *proxySpec) (*upstreamProxy, error) {
	if spec == nil {
		return nil, nil
	}
	invalid := func(why string) error {
		return fault.New("InvalidArgument", "Write it like proxy.example.org:1080", "Reading the egress proxy failed: %s", why)
	}
	host, text, err := net.SplitHostPort(spec.Address)
	port, portErr := strconv.ParseUint(text, 10, 16)
	if err != nil || portErr != nil || port == 0 || host == "" {
		return nil, invalid("its address is not a host and a port")
	}
	if len(spec.Username) > maxProxyField || len(spec.Password) > maxProxyField {
		return nil, invalid("its username or its password is longer than 255 bytes")
	}
	p := &upstreamProxy{host: host, port: uint16(port)}
	if spec.Username != "" || spec.Password != "" {
		p.auth = &socks.Auth{User: spec.Username, Password: spec.Password}
	}
	return p, nil
}

// dial connects to an address that the policy allows, through the upstream proxy if there is one.
func (e *egress) dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	through := e.proxy.Load()
	if through == nil {
		return dialTCP(ctx, to)
	}
	at, err := e.locateProxy(ctx, through)
	if err != nil {
		return nil, err
	}
	conn, err := dialTCP(ctx, at)
	if err != nil {
		return nil, err
	}
	forward := dialedAlready{conn}
	dialer, err := socks.SOCKS5("tcp", at.String(), through.auth, forward)
	if err == nil {
		_, err = dialer.(socks.ContextDialer).DialContext(ctx, "tcp", to.String())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// locateProxy returns the proxy's address. The policy must allow it, as every destination.
func (e *egress) locateProxy(ctx context.Context, through *upstreamProxy) (netip.AddrPort, error) {
	about := egressPair{}
	if address, err := netip.ParseAddr(through.host); err == nil {
		about.to = netip.AddrPortFrom(address, through.port)
	} else {
		about = egressPair{to: e.resolve(ctx, through.host, through.port), names: []string{strings.TrimSuffix(strings.ToLower(through.host), ".")}}
	}
	if !e.permits(e.decide(about), "the egress proxy") {
		return netip.AddrPort{}, errors.New("the egress policy does not allow the proxy")
	}
	return about.to, nil
}

func dialTCP(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp4", to.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// dialedAlready gives a SOCKS5 client its connection. After the handshake the connection itself is used, so that the kernel can
// copy its bytes.
type dialedAlready struct{ conn *net.TCPConn }

func (d dialedAlready) Dial(string, string) (net.Conn, error) { return d.conn, nil }

func (d dialedAlready) DialContext(context.Context, string, string) (net.Conn, error) {
	return d.conn, nil
}
