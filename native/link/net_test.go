package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNetworkConnectionsByName(t *testing.T) {
	start, upstream := resolver(t, func(name string) []string {
		switch name {
		case "db.example.org":
			return []string{"203.0.113.5"}
		case "www.example.org":
			return []string{"=edge.cdn.test", "203.0.113.80"}
		case "evil.test", "shared.test":
			return []string{"203.0.113.80"}
		case "rebind.example.org":
			return []string{"127.0.0.1"}
		}
		return nil
	})
	w := newWorld(t, map[string]any{"dns": map[string]any{"upstreams": []string{upstream}}})
	start(w)
	w.serve(443)
	w.serve(5432)
	w.do("gate", map[string]any{"open": true})
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}

	expect("everything is allowed by default", w.call("203.0.113.9:5432", "x"), "203.0.113.9")
	w.egress("deny", "*.example.org")
	expect("an address that nobody asked for", w.call("203.0.113.5:5432", "x"), "cut")
	expect("the question", w.ask("db.example.org"), "1 answers")
	expect("the address that was answered", w.call("203.0.113.5:5432", "x"), "203.0.113.5")
	expect("another address", w.call("203.0.113.6:5432", "x"), "cut")
	expect("a question for another name", w.ask("evil.test"), "RCodeRefused")

	report := w.report()
	expect("the connections", fmt.Sprint(report.Connections), "{2 2 0 0 0}")
	expect("the bytes", fmt.Sprint(report.Bytes), "{2 22}")
	expect("the questions", fmt.Sprint(report.DNS), "{2 1}")
	expect("the last refusal", report.Refused[0].What, "DNS question for evil.test.")

	expect("a name that points to loopback", w.ask("rebind.example.org"), "1 answers")

	expect("an alias", w.ask("www.example.org"), "2 answers")
	expect("TLS to the alias", w.call("203.0.113.80:443", clientHello(t, "www.example.org")), "203.0.113.80")
	expect("TLS to another name at the same address", w.call("203.0.113.80:443", clientHello(t, "evil.test")), "cut")
	expect("TLS without a name", w.call("203.0.113.80:443", clientHello(t, "")), "cut")

	// A clone holds an address in its memory that this link has never answered.
	expect("TLS to an address learned before", w.call("203.0.113.99:443", clientHello(t, "www.example.org")), "203.0.113.80")
	w.egress("deny", "db.example.org:5432")
	w.egress("deny", "shared.test:5432")
	expect("a spelled-out name's address learned before", w.call("203.0.113.80:5432", "x"), "203.0.113.80")
}

func TestNetworkDeniedNames(t *testing.T) {
	start, upstream := resolver(t, func(string) []string { return []string{"203.0.113.80"} })
	w := newWorld(t, map[string]any{
		"dns":    map[string]any{"upstreams": []string{upstream}},
		"egress": map[string]any{"default": "allow", "deny": []string{"*.evil.test"}},
	})
	start(w)
	w.serve(443)
	w.do("gate", map[string]any{"open": true})
	if got := w.ask("www.evil.test"); got != "RCodeRefused" {
		t.Errorf("question for a denied name: %s", got)
	}
	if got := w.call("203.0.113.80:443", clientHello(t, "www.evil.test")); got != "cut" {
		t.Errorf("TLS to a denied name: %s", got)
	}
	if got := w.call("203.0.113.80:443", clientHello(t, "good.test")); got != "203.0.113.80" {
		t.Errorf("TLS to another name: %s", got)
	}
}

func TestNetworkPrivateNamesAreNotResolved(t *testing.T) {
	start, upstream := resolver(t, func(string) []string { return []string{"203.0.113.80"} })
	w := newWorld(t, map[string]any{"dns": map[string]any{"upstreams": []string{upstream}, "clusterDomain": "k8s.example"}})
	start(w)
	w.do("gate", map[string]any{"open": true})
	for _, name := range []string{"db.team-a.svc", "db.team-a.svc.cluster.local", "db.team-a.svc.k8s.example", "metadata.google.internal", "1.0.96.10.in-addr.arpa"} {
		if got := w.ask(name); got != "RCodeRefused" {
			t.Errorf("question for %s: %s", name, got)
		}
	}
	w.egress("allow", "db.team-a.svc.k8s.example")
	if got := w.ask("db.team-a.svc.k8s.example"); got != "1 answers" {
		t.Errorf("question for a name that a rule names: %s", got)
	}
	if got := w.ask("db.team-b.svc.k8s.example"); got != "RCodeRefused" {
		t.Errorf("question for another name: %s", got)
	}
}

// A clone brings connections that were open at the cut. Nobody knows them here; the clone must hear so at once.
func TestNetworkStaleConnectionsAreReset(t *testing.T) {
	w := newWorld(t, nil)
	w.do("gate", map[string]any{"open": true})
	repair := func(local, remote string) error {
		var err error
		w.inside(func() {
			var conn net.Conn
			if conn, err = repaired(local, remote); err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err = io.WriteString(conn, "still there?"); err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
		})
		return err
	}
	for what, remote := range map[string]string{"outbound": "203.0.113.5:443", "inbound": "169.254.17.1:40000"} {
		if err := repair("169.254.17.2:8000", remote); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s: %v, want a reset", what, err)
		}
	}
}

func TestNetworkForwardsNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.do("gate", map[string]any{"open": true})
	var server net.PacketConn
	var err error
	w.space.Do(func() { server, err = net.ListenPacket("udp4", "203.0.113.5:123") })
	must(t, err)
	defer func() { _ = server.Close() }()
	w.inside(func() {
		conn, dialErr := net.Dial("udp4", "203.0.113.5:123")
		if dialErr != nil {
			return
		}
		_, _ = io.WriteString(conn, "x")
		_ = conn.Close()
	})
	_ = server.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if _, from, err := server.ReadFrom(make([]byte, 10)); err == nil {
		t.Errorf("UDP came through from %v", from)
	}
}

// A program starts moments before the gate opens, and its first act may be a connection.
func TestNetworkFirstConnectionsWaitForTheGate(t *testing.T) {
	start, upstream := resolver(t, func(string) []string { return []string{"203.0.113.5"} })
	w := newWorld(t, map[string]any{"dns": map[string]any{"upstreams": []string{upstream}}})
	start(w)
	w.serve(443)
	called, asked := make(chan string, 1), make(chan string, 1)
	go func() { called <- w.call("203.0.113.5:443", "x") }()
	go func() { asked <- w.ask("db.example.org") }()
	select {
	case got := <-called:
		t.Errorf("before the gate has opened, a connection got %q", got)
	case got := <-asked:
		t.Errorf("before the gate has opened, a question got %q", got)
	case <-time.After(openingTimeout / 10):
	}
	w.do("gate", map[string]any{"open": true})
	if got := <-called; got != "203.0.113.5" {
		t.Errorf("the first connection: %s", got)
	}
	if got := <-asked; got != "1 answers" {
		t.Errorf("the first question: %s", got)
	}
	// What comes now may be from a sandbox that is being replaced.
	w.do("gate", map[string]any{"open": false})
	if got := w.call("203.0.113.5:443", "x"); got != "cut" {
		t.Errorf("a connection after the gate has closed: %s", got)
	}
}

func TestNetworkFirstConnectionsDoNotWaitForLong(t *testing.T) {
	w := newWorld(t, nil)
	if got := w.call("203.0.113.5:443", "x"); got != "cut" {
		t.Errorf("a connection while the gate never opens: %s", got)
	}
}

func TestNetworkPrepareIsIdempotent(t *testing.T) {
	w := newWorld(t, nil)
	w.do("prepare", nil) // again, with everything in place
	w.do("gate", map[string]any{"open": true})
	w.serve(443)
	if got := w.call("203.0.113.5:443", "x"); got != "203.0.113.5" {
		t.Error(got)
	}
}

func TestNetworkUsesLittleMemory(t *testing.T) {
	if build, ok := debug.ReadBuildInfo(); ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector uses more memory")
	}
	w := newWorld(t, nil)
	w.serve(443)
	w.do("gate", map[string]any{"open": true})
	for range 200 {
		w.call("203.0.113.5:443", "x")
	}
	if got := residentKiB(t, w.pid); got > 12<<10 {
		t.Errorf("%d KiB resident", got)
	}
}

func TestNetworkLimitsConnectionsOfClients(t *testing.T) {
	w := newWorld(t, nil)
	w.do("gate", map[string]any{"open": true})
	var server net.Listener
	var err error
	w.inside(func() { server, err = net.Listen("tcp4", "169.254.17.2:8000") })
	must(t, err)
	defer func() { _ = server.Close() }()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	connect := func(control bool) (conn net.Conn, answer string) {
		t.Helper()
		conn, err := net.Dial("unix", w.socket)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = fmt.Fprintf(conn, "{\"port\":8000,\"control\":%v}\n", control)
		must(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		must(t, err)
		return conn, line
	}
	first, answer := connect(false)
	for range maxIngress - 1 {
		if _, answer = connect(false); !strings.Contains(answer, `"ok":true`) {
			t.Fatal(answer)
		}
	}
	if _, answer = connect(false); !strings.Contains(answer, "Unavailable") {
		t.Error("one connection too many: ", answer)
	}
	if _, answer = connect(true); !strings.Contains(answer, `"ok":true`) {
		t.Error("a connection of the cell: ", answer)
	}
	if got := residentKiB(t, w.pid); got > memoryLimitBytes>>10 {
		t.Errorf("%d KiB resident", got)
	}
	_ = first.Close()
	// The slot is free when the sandbox has closed its side, too.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, answer = connect(false); strings.Contains(answer, `"ok":true`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the slot of a closed connection is not free: ", answer)
		}
	}
}

func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			n, err := strconv.Atoi(strings.Fields(text)[0])
			must(t, err)
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
