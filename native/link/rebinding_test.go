package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

const (
	publicAddress = "203.0.113.5"
	metadata      = "169.254.169.254"
	ofNode        = "203.0.113.77"
	private       = "10.1.2.3"
)

// A script answers a question for the nth time, at any time and with any messages.
type script func(reply dnsmessage.Message, times int, send func(dnsmessage.Message))

// serveScript is a resolver that an attacker has: it answers each name by its script.
func serveScript(t *testing.T, conn net.PacketConn, of func(name string) script) {
	t.Cleanup(func() { _ = conn.Close() })
	times := map[string]int{}
	go func() {
		for buffer := make([]byte, 4096); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			name := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
			times[name]++
			of(name)(m, times[name], func(reply dnsmessage.Message) {
				packed, _ := reply.Pack()
				_, _ = conn.WriteTo(packed, from)
			})
		}
	}()
}

// withAnswers adds answers: addresses, and aliases that begin with =. Their TTL is 0.
func withAnswers(m dnsmessage.Message, answers ...string) dnsmessage.Message {
	owner := m.Questions[0].Name
	m.Answers = slices.Clone(m.Answers)
	for _, text := range answers {
		var body dnsmessage.ResourceBody
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET}
		if alias, found := strings.CutPrefix(text, "="); found {
			owner = dnsmessage.MustNewName(alias + ".")
			body = &dnsmessage.CNAMEResource{CNAME: owner}
		} else if address := netip.MustParseAddr(text); address.Is4() {
			body = &dnsmessage.AResource{A: address.As4()}
		} else {
			body = &dnsmessage.AAAAResource{AAAA: address.As16()}
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: body})
	}
	return m
}

// inTurn answers each question with the next of the answers, and then with the last ones.
func inTurn(answers ...[]string) script {
	return func(m dnsmessage.Message, times int, send func(dnsmessage.Message)) {
		send(withAnswers(m, answers[min(times, len(answers))-1]...))
	}
}

// reached records the addresses of the world that were connected to.
type reached struct{ seen }

func (r *reached) keep(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	address := conn.LocalAddr().(*net.TCPAddr).IP.String()
	r.add(address)
	if _, err := conn.Read(make([]byte, 4096)); err == nil {
		_, _ = io.WriteString(conn, address)
	}
}

// rebindingWorld has an attacker's resolver, and servers at every address that must not be reached.
func rebindingWorld(t *testing.T, of func(name string) script) (*world, *reached) {
	t.Helper()
	const upstream = "127.0.0.1:5353"
	w := newWorld(t, map[string]any{"dns": map[string]any{"upstreams": []string{upstream}}, "refuse": []string{"10.0.0.0/8"}})
	w.local(metadata+"/32", private+"/8")
	w.address(ofNode)
	var conn net.PacketConn
	var err error
	w.space.Do(func() { conn, err = net.ListenPacket("udp4", upstream) })
	must(t, err)
	serveScript(t, conn, of)
	r := &reached{}
	for _, port := range []int{80, 443, 5432} {
		w.listen(port, r.keep)
	}
	w.do("gate", map[string]any{"open": true})
	return w, r
}

// address gives the world's machine an address of its own.
func (w *world) address(text string) {
	w.t.Helper()
	w.netlink(func(h *netlink.Handle, lo netlink.Link) error {
		return h.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(text), Mask: net.CIDRMask(32, 32)}})
	})
}

func TestRebindingReachesNothingInside(t *testing.T) {
	targets := map[string]string{"metadata": metadata, "loopback": "127.0.0.1", "node": ofNode, "private": private, "gateway": "169.254.17.1", "zero": "0.0.0.0"}
	forms := map[string]func(target string) script{
		"address": func(target string) script { return inTurn([]string{publicAddress}, []string{target}) },
		"alias": func(target string) script {
			return inTurn([]string{"=a.cdn.test", publicAddress}, []string{"=b.cdn.test", "=c.cdn.test", target})
		},
		"several": func(target string) script { return inTurn([]string{publicAddress}, []string{target, publicAddress}) },
		"mapped": func(target string) script {
			return inTurn([]string{publicAddress}, []string{"::ffff:" + target, target})
		},
		"nat64": func(target string) script {
			return inTurn([]string{publicAddress}, []string{"64:ff9b::" + target, target})
		},
		"at first": func(target string) script { return inTurn([]string{target}) },
	}
	w, r := rebindingWorld(t, func(name string) script {
		form, target, _ := strings.Cut(strings.TrimSuffix(name, ".example.org"), ".")
		return forms[strings.ReplaceAll(form, "-", " ")](targets[target])
	})
	w.egress("deny", "*.example.org")
	for form := range forms {
		for target, address := range targets {
			name := strings.ReplaceAll(form, " ", "-") + "." + target + ".example.org"
			t.Run(form+" to "+target, func(t *testing.T) {
				w.t = t
				if w.ask(name); form != "at first" {
					if got := w.call(publicAddress+":5432", "x"); got != publicAddress {
						t.Fatalf("the first address: %q", got)
					}
				}
				r.take()
				w.ask(name)
				if !strings.HasPrefix(address, "127.") && address != "0.0.0.0" { // These are the sandbox's own.
					if got := w.call(address+":5432", "x"); got != "cut" {
						t.Errorf("the second address: %q", got)
					}
				}
				// Link resolves the name that the client announces.
				for port, first := range map[string]string{"443": clientHello(t, name), "80": get("/", name)} {
					if got := w.call("203.0.113.99:"+port, first); got != "cut" {
						t.Errorf("port %s: %q", port, got)
					}
				}
				if all := r.take(); len(all) > 0 {
					t.Errorf("reached %v", all)
				}
			})
		}
	}
}

func TestAnswersThatAreNotForTheQuestion(t *testing.T) {
	late := make(chan func(), 1)
	scripts := map[string]script{
		"other.example.org": func(m dnsmessage.Message, _ int, send func(dnsmessage.Message)) {
			name := m.Questions[0].Name
			for _, change := range []func(m *dnsmessage.Message){
				func(m *dnsmessage.Message) { m.ID++ },
				func(m *dnsmessage.Message) { m.Response = false },
				func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("evil.example.org.") },
				func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeAAAA },
				func(m *dnsmessage.Message) { m.Questions = nil },
			} {
				forged := withAnswers(m, "203.0.113.66")
				forged.Questions = slices.Clone(m.Questions)
				change(&forged)
				send(forged)
			}
			// Records of other names beside the answer.
			own := withAnswers(m, publicAddress)
			m.Questions = []dnsmessage.Question{{Name: dnsmessage.MustNewName("beside.example.org."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}
			beside := withAnswers(m, "203.0.113.67").Answers
			own.Questions[0].Name = name
			own.Answers, own.Authorities, own.Additionals = append(own.Answers, beside...), beside, beside
			send(own)
		},
		// Answers the first question when the second one has come.
		"late.example.org": func(m dnsmessage.Message, times int, send func(dnsmessage.Message)) {
			if times == 1 {
				late <- func() { send(withAnswers(m, "203.0.113.68")) }
				return
			}
			(<-late)()
			send(withAnswers(m, publicAddress))
		},
		"inside.example.org":  inTurn([]string{"=db.team-a.svc.cluster.local", publicAddress}),
		"cloud.example.org":   inTurn([]string{"=a.cdn.test", "=metadata.google.internal", publicAddress}),
		"reverse.example.org": inTurn([]string{"=1.0.1.10.in-addr.arpa", publicAddress}),
		"circle.example.org":  inTurn([]string{"=circle.example.org", "=circle.example.org"}),
		"long.example.org":    inTurn(append(slices.Repeat([]string{"=a.cdn.test", "=b.cdn.test"}, 10), publicAddress)),
		"huge.example.org": func(m dnsmessage.Message, _ int, send func(dnsmessage.Message)) {
			send(withAnswers(m, slices.Repeat([]string{"203.0.113.69"}, 1000)...))
		},
	}
	w, r := rebindingWorld(t, func(name string) script { return scripts[name] })
	w.egress("deny", "*.example.org")
	for name, want := range map[string]string{
		"other": "2 answers", "late": "1 answers", "circle": "2 answers", "long": "21 answers", "huge": "truncated",
		"inside": "RCodeRefused", "cloud": "RCodeRefused", "reverse": "RCodeRefused",
	} {
		if got := w.ask(name + ".example.org"); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, forged := range []string{"203.0.113.66:5432", "203.0.113.67:5432", "203.0.113.68:5432"} {
		if got := w.call(forged, "x"); got != "cut" {
			t.Errorf("%s: %q", forged, got)
		}
	}
	r.take()
	// The name that link resolves itself is refused too.
	if got := w.call("203.0.113.99:443", clientHello(t, "inside.example.org")); got != "cut" || len(r.take()) > 0 {
		t.Errorf("an alias inside, by the name in TLS: %q", got)
	}
}

func TestIPv6ReachesNothing(t *testing.T) {
	asked := make(chan dnsmessage.Type, 16)
	w, r := rebindingWorld(t, func(string) script {
		return func(m dnsmessage.Message, _ int, send func(dnsmessage.Message)) {
			asked <- m.Questions[0].Type
			send(withAnswers(m, "64:ff9b::"+metadata))
		}
	})
	if got := w.question("six.example.org", dnsmessage.TypeAAAA); got != "0 answers" || len(asked) > 0 {
		t.Errorf("a question for AAAA: %q, and the resolver was asked %d times", got, len(asked))
	}
	for _, text := range []string{"::ffff:" + metadata, "::ffff:" + private, "64:ff9b::" + metadata, "::" + private, "2002:a9fe:a9fe::1"} {
		if got := w.callIPv6(text, 5432); got == "connected" {
			t.Errorf("%s: %s", text, got)
		}
	}
	if all := r.take(); len(all) > 0 {
		t.Errorf("reached %v", all)
	}
}

// A program keeps the first address after its TTL, when the name already leads elsewhere.
func TestAnAddressAfterItsTime(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	serveScript(t, conn, func(string) script { return inTurn([]string{publicAddress}, []string{metadata}) })
	config := netConfig{}
	config.DNS.Upstreams = []string{conn.LocalAddr().String()}
	config.Egress.Default, config.Egress.Allow = "deny", []string{"db.example.org"}
	e, err := newEgress(newGate(), config)
	must(t, err)
	now := time.Unix(0, 0)
	e.names.Now = func() time.Time { return now }
	admitted := func(address string) bool {
		_, ok := e.admit(context.Background(), nil, netip.MustParseAddrPort(address+":5432"), &opening{})
		return ok
	}
	_, err = e.relay.Lookup(context.Background(), "db.example.org")
	must(t, err)
	if !admitted(publicAddress) {
		t.Error("the address is not admitted while it is known")
	}
	now = now.Add(time.Hour)
	if admitted(publicAddress) {
		t.Error("the address is admitted after its time")
	}
	if names := e.names.Of(netip.MustParseAddr(metadata)); fmt.Sprint(names) != "[db.example.org]" {
		t.Errorf("link has not resolved the name again: %v", names)
	}
	if admitted(metadata) {
		t.Error("the second address is admitted")
	}
}

// callIPv6 connects from the sandbox by an IPv6 socket and waits until the other side says or ends something.
func (w *world) callIPv6(address string, port int) (answer string) {
	w.t.Helper()
	w.inside(func() {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			answer = err.Error()
			return
		}
		defer func() { _ = unix.Close(fd) }()
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
		if err := unix.Connect(fd, &unix.SockaddrInet6{Port: port, Addr: netip.MustParseAddr(address).As16()}); err != nil {
			answer = err.Error()
			return
		}
		_, _ = unix.Write(fd, []byte("x"))
		if n, err := unix.Read(fd, make([]byte, 64)); err == nil && n > 0 {
			answer = "connected"
		}
	})
	return answer
}
