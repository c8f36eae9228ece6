package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"ramet.dev/native/internal/loopback"
	"ramet.dev/native/internal/proxy"
)

// Loopback connects link to programs that listen only on 127.0.0.1 or ::1. Link asks for it when the sandbox's own address
// refuses a connection.
type Loopback struct {
	// Reserved lists the guest's own ports, which are never connected.
	Reserved []int

	pairs proxy.Pairs[struct{}]
}

// loopbackTimeout is shorter than link's, so that link gets the reason.
const loopbackTimeout = 4 * time.Second

// Drop resets all connections.
func (l *Loopback) Drop() { l.pairs.Cut(func(struct{}) bool { return true }) }

func (l *Loopback) connect(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 || slices.Contains(l.Reserved, int(port)) {
		refuse(w, http.StatusForbidden, "Forbidden", "connecting to the loopback address failed: the port is invalid or reserved")
		return
	}
	program, err := dialLoopback(uint16(port))
	if err != nil {
		status := http.StatusBadGateway
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
			status = http.StatusGatewayTimeout
		}
		refuse(w, status, "Unavailable", "connecting to the loopback address failed: "+err.Error())
		return
	}
	link, err := hijack(w)
	if err != nil {
		_ = program.Close()
		return
	}
	// Link may use the connection only when Drop can find it.
	l.pairs.Run(struct{}{}, link, program, func() bool {
		_, err := link.Write([]byte(loopback.Accepted))
		return err == nil
	})
}

// hijack takes the connection over from the HTTP server. Link sends nothing before the response, so nothing is buffered.
func hijack(w http.ResponseWriter) (*net.TCPConn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok || buffered.Reader.Buffered() > 0 {
		_ = conn.Close()
		return nil, errors.New("the connection is not link's")
	}
	return tcp, nil
}

var loopbackAddresses = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// dialLoopback returns the error of the first address, which is the one that users know.
func dialLoopback(port uint16) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loopbackTimeout)
	defer cancel()
	var first error
	for _, address := range loopbackAddresses {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, port).String())
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
