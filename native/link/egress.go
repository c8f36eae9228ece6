package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"ramet.dev/native/internal/proxy"
	"ramet.dev/native/link/internal/credentials"
	"ramet.dev/native/link/internal/dnsrelay"
	"ramet.dev/native/link/internal/netns"
	"ramet.dev/native/link/internal/policy"
)

const (
	// maxEgress limits the connections of one sandbox. Further connections are reset.
	maxEgress     = 2048
	egressTimeout = 30 * time.Second
	// openingTimeout limits how long the sandbox's first connections and DNS questions wait for the gate: its program starts, or is
	// restored, moments before that opens. Hooks, which run before it, do not wait longer for a network that they cannot have.
	openingTimeout = 2 * time.Second
)

// An egress proxies the sandbox's outgoing connections that its policy allows, while the gate is open.
type egress struct {
	gate    *gate
	refuse  []string
	domains []string
	policy  atomic.Pointer[policy.Policy]
	names   policy.Names
	relay   dnsrelay.Relay
	own     ownAddresses
	refused *refusals
	counters
	// relearned holds the names that link has recently resolved itself.
	relearned oncePerWhile
	pairs     proxy.Pairs[egressPair]
	slots     chan struct{}
	// intercepts add credentials to requests.
	intercepts intercepts
	proxy      atomic.Pointer[upstreamProxy]
}

type egressPair struct {
	to    netip.AddrPort
	names []string
}

func newEgress(g *gate, config netConfig) (*egress, error) {
	e := &egress{gate: g, refuse: config.Refuse, slots: make(chan struct{}, maxEgress)}
	e.intercepts.slots = make(chan struct{}, maxIntercepted)
	e.intercepts.requests = make(chan struct{}, maxRequests)
	e.refused = newRefusals(os.Stderr, linePause)
	e.relearned.every = 10 * time.Second
	e.names.Now = time.Now
	if config.DNS.ClusterDomain != "" {
		e.domains = []string{config.DNS.ClusterDomain}
	}
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
	e.pairs.Count = &e.bytes
	e.relay = dnsrelay.Relay{
		Upstreams: upstreams,
		Permit:    e.permitQuestion,
		Hides:     func(name string) bool { return e.policy.Load().Private(name) },
		Hidden:    e.refuseAnswer,
		Learn:     e.names.Learn,
	}
	return e, nil
}

// serve opens the proxy and the DNS relay in the gateway namespace, and redirects the sandbox's connections to them.
func (e *egress) serve(pair *netns.Pair) error {
	listener, err := pair.Gateway.Listen(netip.AddrPortFrom(netns.GatewayAddress, 0))
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
	go e.accept(listener)
	return pair.Redirect(uint16(listener.Addr().(*net.TCPAddr).Port))
}

// setPolicy takes effect immediately, also for open connections.
func (e *egress) setPolicy(spec policy.Spec) error {
	p, err := policy.New(spec, e.refuse, e.domains...)
	if err != nil {
		return err
	}
	e.policy.Store(p)
	denied := func(c egressPair) bool { return !e.decide(c).Allowed }
	e.pairs.Cut(denied)
	e.intercepts.cut(denied)
	return nil
}

// setCredentials takes effect with the next request, also on open connections. It returns the certificate of the CA, if there is one.
func (e *egress) setCredentials(spec credentials.Spec, through *proxySpec) (certificate string, err error) {
	rules, err := credentials.New(spec)
	if err != nil {
		return "", err
	}
	upstream, err := parseProxy(through)
	if err != nil {
		return "", err
	}
	e.intercepts.rules.Store(rules)
	e.proxy.Store(upstream)
	if rules.Authority == nil {
		return "", nil
	}
	return rules.Authority.Certificate(), nil
}

// cutAll resets all connections.
func (e *egress) cutAll() {
	all := func(egressPair) bool { return true }
	e.pairs.Cut(all)
	e.intercepts.cut(all)
}

func (e *egress) permitQuestion(name string) bool {
	if !e.gate.untilOpened(openingTimeout) {
		return false
	}
	e.questions.Add(1)
	if e.policy.Load().Question(name) {
		return true
	}
	e.refusedQuestions.Add(1)
	e.refused.report("DNS question for "+name, "the egress policy does not allow this name")
	return false
}

func (e *egress) refuseAnswer(name string) {
	e.refused.report("DNS answer with "+name, "names of the cluster and of private networks are refused, also behind an alias")
}

func (e *egress) decide(c egressPair) policy.Verdict {
	return e.policy.Load().Connection(c.to, c.names, e.own.list())
}

func (e *egress) accept(listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			time.Sleep(50 * time.Millisecond) // out of descriptors: wait until connections close
			continue
		}
		select {
		case e.slots <- struct{}{}:
			go func() {
				defer func() { <-e.slots }()
				e.serveConn(conn)
			}()
		default:
			e.overLimit.Add(1)
			proxy.Reset(conn)
		}
	}
}

func (e *egress) serveConn(inner *net.TCPConn) {
	to, err := originalDestination(inner)
	if err != nil || !e.gate.untilOpened(openingTimeout) {
		proxy.Reset(inner)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), egressTimeout)
	defer cancel()
	first := &opening{}
	if e.intercept(ctx, inner, to, first) {
		return
	}
	about, ok := e.admit(ctx, inner, to, first)
	if !ok {
		e.denied.Add(1)
		proxy.Reset(inner)
		return
	}
	e.allowed.Add(1)
	outer, err := e.dial(ctx, about.to)
	if err != nil {
		e.failed.Add(1)
		proxy.Reset(inner)
		return
	}
	if _, err := outer.Write(first.bytes); err != nil {
		proxy.Reset(inner)
		proxy.Reset(outer)
		return
	}
	e.bytes.There.Add(int64(len(first.bytes)))
	e.pairs.Run(about, inner, outer, func() bool { return e.gate.isOpen() && e.decide(about).Allowed })
}

// admit returns the destination of an allowed connection. It reads the opening if that is needed to decide.
func (e *egress) admit(ctx context.Context, inner *net.TCPConn, to netip.AddrPort, first *opening) (about egressPair, ok bool) {
	about = egressPair{to: to, names: e.names.Of(to.Addr())}
	verdict := e.decide(about)
	if !verdict.Allowed && e.relearn(ctx, to.Port()) {
		about.names = e.names.Of(to.Addr())
		verdict = e.decide(about)
	}
	rules := e.policy.Load()
	settled := verdict.Allowed && verdict.Name == "" && !rules.DeniesNames() || !verdict.Allowed && !rules.AllowsNames()
	if settled || !announcesName(to.Port()) {
		return about, e.permits(verdict, to.String())
	}
	// A rule with a name may apply, but the address was learned before the clone was created, or it serves several names.
	// The client names the host.
	name := first.read(inner)
	switch {
	case name != "" && verdict.Allowed && verdict.Name == "":
		about.names = append(about.names, name)
	case name != "":
		about = egressPair{to: e.locate(ctx, name, to), names: []string{name}}
	case verdict.Name != "":
		verdict = policy.Verdict{Why: "rules allow it only by name, and the client sends no host name"}
	}
	if name == "" {
		return about, e.permits(verdict, to.String())
	}
	verdict = e.decide(about)
	return about, e.permits(verdict, name+" at "+to.String())
}

func (e *egress) permits(verdict policy.Verdict, to string) bool {
	if !verdict.Allowed {
		e.refused.report("connection to "+to, verdict.Why)
	}
	return verdict.Allowed
}

// relearn resolves the exact names of the rules again: a clone has addresses in its memory that the link of its source
// learned. It reports whether it did.
func (e *egress) relearn(ctx context.Context, port uint16) bool {
	asked := false
	for _, name := range e.policy.Load().SpelledOut(port) {
		if due, _ := e.relearned.due(name); due {
			_, err := e.relay.Lookup(ctx, name)
			asked = asked || err == nil
		}
	}
	return asked
}

// locate resolves the announced name: a client that names an allowed host but connects to another address is connected
// to the host that it named.
func (e *egress) locate(ctx context.Context, name string, to netip.AddrPort) netip.AddrPort {
	if slices.Contains(e.names.Of(to.Addr()), name) || !e.policy.Load().Question(name) {
		return to
	}
	addresses, err := e.relay.Lookup(ctx, name)
	if err != nil || len(addresses) == 0 {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port()) // rejected by every policy
	}
	if slices.Contains(addresses, to.Addr()) {
		return to
	}
	return netip.AddrPortFrom(addresses[0], to.Port())
}
