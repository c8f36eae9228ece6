package main

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ramet.dev/native/internal/loopback"
)

func TestLoopbackConnectsToProgramsOnLoopbackAddresses(t *testing.T) {
	g := startGuest(t)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := net.Listen("tcp", address)
		must(t, err)
		defer listener.Close()
		go echo(listener)
		conn, err := g.loopback(portOf(t, listener.Addr()))
		must(t, err)
		_, err = conn.Write([]byte("to " + address))
		must(t, err)
		must(t, conn.CloseWrite())
		text, err := io.ReadAll(conn)
		if string(text) != "hello to "+address || err != nil {
			t.Error(string(text), err)
		}
	}
}

func TestLoopbackConnectionsEndWithARestore(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	conn, err := g.loopback(portOf(t, listener.Addr()))
	must(t, err)
	program, err := listener.Accept()
	must(t, err)
	g.init(map[string]any{"sandboxId": "two", "generation": 2, "clone": true})
	for name, end := range map[string]net.Conn{"link's": conn, "the program's": program} {
		must(t, end.SetReadDeadline(time.Now().Add(5*time.Second)))
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s end: %v", name, err)
		}
	}
}

func TestLoopbackRefusesItsOwnPortsAndClosedOnes(t *testing.T) {
	g := startGuest(t)
	for _, port := range []string{portIn(g.control), portIn(g.client), strconv.Itoa(freePort(t)), "0", "65536", "x"} {
		if _, err := g.loopback(port); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("port %s: %v", port, err)
		}
	}
}

// loopback connects as link does. A port that is no number is a request that link never sends.
func (g *guest) loopback(port string) (*net.TCPConn, error) {
	g.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+portIn(g.control))
	must(g.t, err)
	g.t.Cleanup(func() { _ = conn.Close() })
	must(g.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		_, err = io.WriteString(conn, "POST "+loopback.Path+port+" HTTP/1.1\r\nHost: guest\r\n\r\n")
		must(g.t, err)
		answer := make([]byte, len("HTTP/1.1 403"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 403" {
			return nil, errors.Join(os.ErrInvalid, err)
		}
		return nil, syscall.ECONNREFUSED
	}
	return conn.(*net.TCPConn), loopback.Connect(conn, uint16(number))
}

// echo sends a word of its own first, which the client must get, too.
func echo(listener net.Listener) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("hello "))
	_, _ = io.Copy(conn, conn)
}

func portOf(t *testing.T, address net.Addr) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address.String())
	must(t, err)
	return port
}

func portIn(url string) string { return url[strings.LastIndex(url, ":")+1:] }
