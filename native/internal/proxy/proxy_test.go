package proxy

import (
	"net"
	"testing"
	"time"
)

func TestPairsEndHalfOpenConnections(t *testing.T) {
	halfOpenTimeout = 50 * time.Millisecond
	client, outer := pipe(t)
	server, inner := pipe(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var pairs Pairs[struct{}]
		pairs.Run(struct{}{}, outer, inner, func() bool { return true })
	}()
	if err := client.CloseWrite(); err != nil { // the server keeps its side open
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the connection is still open")
	}
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		if _, err := server.Read(make([]byte, 1)); err != nil {
			return
		}
	}
}

func pipe(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialed, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}
