package main

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"ramet.dev/native/link/internal/carry"
	"ramet.dev/native/link/internal/dnsrelay"
	"ramet.dev/native/link/internal/netns"
	"ramet.dev/native/link/internal/policy"
)

const (
	// maxEgress bounds what one sandbox can cost: connections beyond it are reset.
	maxEgress     = 2048
	egressTimeout = 30 * time.Second
)

// An egress carries the sandbox's connections out, as far as its policy goes and while the gate is open.
type egress struct {
	gate    *gate
	refuse  []string
	policy  atomic.Pointer[policy.Policy]
	names   policy.Names
	relay   dnsrelay.Relay
	own     ownAddresses
	refused refusals
	// relearned are the names asked for on link's own behalf lately.
	relearned oncePerWhile
	carried   carry.Carried[carriedOut]
	slots     chan struct{}
}

type carriedOut struct {
	to    netip.AddrPort
	names []string
}

func newEgress(g *gate, config netConfig) (*egress, error) {
	e := &egress{gate: g, refuse: config.Refuse, slots: make(chan struct{}, maxEgress)}
	e.refused.every = time.Minute
	e.relearned.every = 10 * time.Second
	e.names.Now = time.Now
	if err := e.setPolicy(config.Egress); err != nil {
		return nil, err
	}
	upstreams := dnsrelay.OfMachine()
	if len(config.DNS.Upstreams) > 0 {
		var err error
		if upstreams, err = dnsrelay.Fixed(config.DNS.Upstreams); err != nil {
			return nil, err
		}
	}
	e.relay = dnsrelay.Relay{Upstreams: upstreams, Permit: e.permitQuestion, Learn: e.names.Learn}
	return e, nil
}

// serve opens the proxy and the DNS relay in the gateway namespace, and leads the sandbox's connections there.
func (e *egress) serve(pair *netns.Pair) error {
	proxy, err := pair.Gateway.Listen(netip.AddrPortFrom(netns.GatewayAddress, 0))
	if err != nil {
		return err
	}
	relayAddress := netip.AddrPortFrom(netns.GatewayAddress, netns.DNSPort)
	udp, err := pair.Gateway.ListenPacket(relayAddress)
	if err != nil {
		return err
	}
	tcp, err := pair.Gateway.Listen(relayAddress)
	if err != nil {
		return err
	}
	go e.relay.ServeUDP(udp)
	go e.relay.ServeTCP(tcp)
	go e.accept(proxy)
	return pair.Redirect(uint16(proxy.Addr().(*net.TCPAddr).Port))
}

// setPolicy takes effect at once, also on what is being carried.
func (e *egress) setPolicy(spec policy.Spec) error {
	p, err := policy.New(spec, e.refuse)
	if err != nil {
		return err
	}
	e.policy.Store(p)
	e.carried.Cut(func(c carriedOut) bool { return !e.decide(c).Allowed })
	return nil
}

// cutAll resets what is carried.
func (e *egress) cutAll() {
	e.carried.Cut(func(carriedOut) bool { return true })
}

func (e *egress) permitQuestion(name string) bool {
	if !e.gate.isOpen() {
		return false
	}
	if e.policy.Load().Question(name) {
		return true
	}
	e.refused.tell("DNS question for "+name, "the egress policy does not allow that name")
	return false
}

func (e *egress) decide(c carriedOut) policy.Verdict {
	return e.policy.Load().Connection(c.to, c.names, e.own.list())
}

func (e *egress) accept(listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			time.Sleep(50 * time.Millisecond) // no descriptors left: others end soon
			continue
		}
		select {
		case e.slots <- struct{}{}:
			go func() {
				defer func() { <-e.slots }()
				e.serveConn(conn)
			}()
		default:
			carry.Reset(conn)
		}
	}
}

func (e *egress) serveConn(inner *net.TCPConn) {
	to, err := originalDestination(inner)
	if err != nil || !e.gate.isOpen() {
		carry.Reset(inner)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), egressTimeout)
	defer cancel()
	about, early, ok := e.admit(ctx, inner, to)
	if !ok {
		carry.Reset(inner)
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp4", about.to.String())
	if err != nil {
		carry.Reset(inner)
		return
	}
	outer := conn.(*net.TCPConn)
	if _, err := outer.Write(early); err != nil {
		carry.Reset(inner)
		carry.Reset(outer)
		return
	}
	e.carried.Run(about, inner, outer, func() bool { return e.gate.isOpen() && e.decide(about).Allowed })
}

// admit decides where a connection may go. Early is what was read of it to find that out.
func (e *egress) admit(ctx context.Context, inner *net.TCPConn, to netip.AddrPort) (about carriedOut, early []byte, ok bool) {
	about = carriedOut{to: to, names: e.names.Of(to.Addr())}
	verdict := e.decide(about)
	if !verdict.Allowed && e.relearn(ctx, to.Port()) {
		about.names = e.names.Of(to.Addr())
		verdict = e.decide(about)
	}
	rules := e.policy.Load()
	settled := verdict.Allowed && verdict.Name == "" && !rules.DeniesNames() || !verdict.Allowed && !rules.AllowsNames()
	if settled || !announcesName(to.Port()) {
		return about, nil, e.permits(verdict, to.String())
	}
	// Rules go by name, and the address alone does not settle it: it was learned before a clone was made, or other names
	// live there too. The client says which it means.
	name, early := readAnnouncedName(inner)
	switch {
	case name != "" && verdict.Allowed && verdict.Name == "":
		about.names = append(about.names, name)
	case name != "":
		about = carriedOut{to: e.locate(ctx, name, to), names: []string{name}}
	case verdict.Name != "":
		verdict = policy.Verdict{Why: "rules allow it by name only, and the client names no host"}
	}
	if name == "" {
		return about, early, e.permits(verdict, to.String())
	}
	verdict = e.decide(about)
	return about, early, e.permits(verdict, name+" at "+to.String())
}

func (e *egress) permits(verdict policy.Verdict, to string) bool {
	if !verdict.Allowed {
		e.refused.tell("connection to "+to, verdict.Why)
	}
	return verdict.Allowed
}

// relearn asks again for the names that rules spell out: a clone holds addresses in its memory that were learned by the
// link of its source. It says whether it asked.
func (e *egress) relearn(ctx context.Context, port uint16) bool {
	asked := false
	for _, name := range e.policy.Load().SpelledOut(port) {
		if e.relearned.due(name) {
			_, err := e.relay.Lookup(ctx, name)
			asked = asked || err == nil
		}
	}
	return asked
}

// locate says where the announced name really is: a client that names an allowed host and connects elsewhere is led to
// the host that it named.
func (e *egress) locate(ctx context.Context, name string, to netip.AddrPort) netip.AddrPort {
	if slices.Contains(e.names.Of(to.Addr()), name) || !e.policy.Load().Question(name) {
		return to
	}
	addresses, err := e.relay.Lookup(ctx, name)
	if err != nil || len(addresses) == 0 {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port()) // nowhere: refused by every policy
	}
	if slices.Contains(addresses, to.Addr()) {
		return to
	}
	return netip.AddrPortFrom(addresses[0], to.Port())
}
