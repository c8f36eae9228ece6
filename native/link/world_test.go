package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/netns"
)

// A world is a network of its own in which link runs: 203.0.113.0/24 is reachable and no interface's own, as the rest
// of the world is to a Pod. It works as an ordinary user in a user namespace, too.
type world struct {
	t     *testing.T
	space *netns.Namespace
	pid   int
	// sandbox is the path of the sandbox's namespace.
	sandbox string
	socket  string
	in      io.WriteCloser
	out     *bufio.Scanner
}

func newWorld(t *testing.T, config map[string]any) *world {
	t.Helper()
	space, err := netns.New()
	if err != nil {
		t.Skip("this machine does not let network namespaces be made here: ", err)
	}
	t.Cleanup(space.Close)
	w := &world{t: t, space: space, socket: filepath.Join(t.TempDir(), "s")}
	w.furnish()
	w.start(config)
	return w
}

func (w *world) furnish() {
	w.netlink(func(h *netlink.Handle, lo netlink.Link) error { return h.LinkSetUp(lo) })
	w.local("203.0.113.0/24")
}

// local makes ranges reachable in the world.
func (w *world) local(ranges ...string) {
	w.t.Helper()
	for _, text := range ranges {
		_, destination, err := net.ParseCIDR(text)
		must(w.t, err)
		w.netlink(func(h *netlink.Handle, lo netlink.Link) error {
			return h.RouteAdd(&netlink.Route{
				LinkIndex: lo.Attrs().Index, Dst: destination, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
			})
		})
	}
}

func (w *world) netlink(change func(h *netlink.Handle, lo netlink.Link) error) {
	w.t.Helper()
	var h *netlink.Handle
	var err error
	w.space.Do(func() { h, err = netlink.NewHandle(unix.NETLINK_ROUTE) })
	must(w.t, err)
	defer h.Close()
	lo, err := h.LinkByName("lo")
	must(w.t, err)
	must(w.t, change(h, lo))
}

func (w *world) start(config map[string]any) {
	full := map[string]any{"v": 1, "socket": w.socket}
	for key, value := range config {
		full[key] = value
	}
	command := exec.Command("/proc/self/exe", "net")
	command.Env = append(os.Environ(), asLink)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	must(w.t, err)
	out, err := command.StdoutPipe()
	must(w.t, err)
	w.space.Do(func() { err = command.Start() }) // a child is born where its parent's thread is
	must(w.t, err)
	w.t.Cleanup(func() { _ = in.Close(); _ = command.Wait() })
	w.pid, w.in, w.out = command.Process.Pid, in, bufio.NewScanner(out)
	made := w.line()
	if made["event"] != "made" {
		w.t.Fatal(made)
	}
	if ready := w.exchange(full); ready["event"] != "ready" {
		w.t.Fatal(ready)
	}
	w.sandbox = made["netns"].(string)
}

func (w *world) exchange(line any) map[string]any {
	w.t.Helper()
	text, err := json.Marshal(line)
	must(w.t, err)
	_, err = w.in.Write(append(text, '\n'))
	must(w.t, err)
	return w.line()
}

func (w *world) line() map[string]any {
	w.t.Helper()
	if !w.out.Scan() {
		w.t.Fatal("link ended")
	}
	var answer map[string]any
	must(w.t, json.Unmarshal(w.out.Bytes(), &answer))
	return answer
}

// do performs an operation that must succeed.
func (w *world) do(op string, more map[string]any) {
	w.t.Helper()
	request := map[string]any{"id": 1, "op": op}
	for key, value := range more {
		request[key] = value
	}
	if answer := w.exchange(request); answer["ok"] != true {
		w.t.Fatal(answer)
	}
}

func (w *world) report() egressReport {
	w.t.Helper()
	text, err := json.Marshal(w.exchange(map[string]any{"id": 1, "op": "report"})["report"])
	must(w.t, err)
	var report egressReport
	must(w.t, json.Unmarshal(text, &report))
	return report
}

func (w *world) egress(defaults string, allow ...string) {
	w.t.Helper()
	w.do("egress", map[string]any{"policy": map[string]any{"default": defaults, "allow": allow}})
}

// serve answers each connection to any address of the world, once something has come, with that address.
func (w *world) serve(port int) {
	w.t.Helper()
	w.listen(port, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		if _, err := conn.Read(make([]byte, 4096)); err == nil {
			_, _ = io.WriteString(conn, conn.LocalAddr().(*net.TCPAddr).IP.String())
		}
	})
}

// listen calls handle for each connection to any address of the world.
func (w *world) listen(port int, handle func(conn net.Conn)) {
	w.t.Helper()
	var listener net.Listener
	var err error
	w.space.Do(func() { listener, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port)) })
	must(w.t, err)
	w.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go handle(conn)
		}
	}()
}

// resolver is a stand-in for a DNS resolver in the world; it answers A questions by what lookup says.
func resolver(t *testing.T, lookup func(name string) []string) (start func(w *world), address string) {
	const at = "127.0.0.1:5353"
	return func(w *world) {
		var conn net.PacketConn
		var err error
		w.space.Do(func() { conn, err = net.ListenPacket("udp4", at) })
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			for buffer := make([]byte, 4096); ; {
				n, from, err := conn.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo(dnsAnswer(buffer[:n], lookup), from)
			}
		}()
	}, at
}

func dnsAnswer(query []byte, lookup func(string) []string) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return nil
	}
	m.Response, m.Additionals = true, nil
	owner := m.Questions[0].Name
	for _, text := range lookup(strings.TrimSuffix(owner.String(), ".")) {
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: 1}
		if alias, found := strings.CutPrefix(text, "="); found {
			owner = dnsmessage.MustNewName(alias + ".")
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: owner}})
			continue
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()}})
	}
	packed, _ := m.Pack()
	return packed
}

// inside runs f on a thread in the sandbox's namespace.
func (w *world) inside(f func()) {
	w.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		file, err := os.Open(w.sandbox)
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			_ = file.Close()
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	must(w.t, <-done)
}

// call connects from the sandbox, sends a text, and returns what came back or what went wrong.
func (w *world) call(to, text string) (answer string) {
	w.t.Helper()
	w.inside(func() {
		conn, err := net.DialTimeout("tcp4", to, 5*time.Second)
		if err != nil {
			if answer = err.Error(); errors.Is(err, syscall.ECONNRESET) {
				answer = "cut"
			}
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		// A reset is reported once, by the first call.
		_, writeErr := io.WriteString(conn, text)
		data, err := io.ReadAll(conn)
		if err == nil {
			err = writeErr
		}
		if answer = string(data); err != nil {
			answer = "cut"
		}
	})
	return answer
}

// ask resolves a name from the sandbox.
func (w *world) ask(name string) (answer string) {
	w.t.Helper()
	return w.question(name, dnsmessage.TypeA)
}

func (w *world) question(name string, kind dnsmessage.Type) (answer string) {
	w.t.Helper()
	w.inside(func() {
		conn, err := net.Dial("udp4", "169.254.17.1:53")
		if err != nil {
			answer = err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		const accepted = 4096
		query := dnsmessage.Message{
			Header:      dnsmessage.Header{ID: 7, RecursionDesired: true},
			Additionals: []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Class: accepted}, Body: &dnsmessage.OPTResource{}}},
			Questions:   []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET}},
		}
		packed, _ := query.Pack()
		_, _ = conn.Write(packed)
		buffer := make([]byte, 4096)
		n, err := conn.Read(buffer)
		var m dnsmessage.Message
		switch {
		case err != nil:
			answer = err.Error()
		case m.Unpack(buffer[:n]) != nil:
			answer = "no DNS"
		case m.RCode != dnsmessage.RCodeSuccess:
			answer = m.RCode.String()
		case m.Truncated:
			answer = "truncated"
		default:
			answer = fmt.Sprintf("%d answers", len(m.Answers))
		}
	})
	return answer
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seen is what the servers of a test have seen since it was taken last.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, text)
}

func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.all
	s.all = nil
	return taken
}
