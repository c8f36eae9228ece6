package dnsrelay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// upstreamTimeout is the time limit of one resolver before the next one is queried.
const upstreamTimeout = 2 * time.Second

var (
	errNoUpstream = errors.New("there is no DNS resolver to ask")
	errHidden     = errors.New("the name is an alias of one of the cluster or a private network")
)

// Lookup resolves the addresses of a name for link itself.
func (r *Relay) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	fqdn, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, err
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(time.Now().UnixNano()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: fqdn, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	query, err := message.Pack()
	if err != nil {
		return nil, err
	}
	q, err := readQuestion(query)
	if err != nil {
		return nil, err
	}
	reply, err := r.ask(ctx, "udp", query, q)
	if err != nil {
		return nil, err
	}
	r.learn(q, reply)
	var all []netip.Addr
	for _, found := range addresses(q, reply) {
		all = append(all, found.address)
	}
	return all, nil
}

// ask queries the resolvers in order, twice.
func (r *Relay) ask(ctx context.Context, network string, query []byte, q question) ([]byte, error) {
	if err := r.budget.wait(ctx); err != nil {
		return nil, err
	}
	upstreams, err := r.Upstreams(), errNoUpstream
	for range 2 {
		for _, upstream := range upstreams {
			var reply []byte
			if reply, err = askOne(ctx, network, upstream, query, q); err == nil {
				// Some resolvers cut a record. The client gets no byte of it, and asks again over TCP.
				if network == "udp" && reply[2]&truncatedBit != 0 {
					return reply, nil
				}
				return r.revealed(reply)
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	}
	return nil, err
}

func askOne(ctx context.Context, network, upstream string, query []byte, q question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, upstream)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if network == "tcp" {
		return exchangeTCP(conn, query, q)
	}
	return exchangeUDP(conn, query, q)
}

func exchangeTCP(conn net.Conn, query []byte, q question) ([]byte, error) {
	if err := writeFramed(conn, query); err != nil {
		return nil, err
	}
	reply, err := readFramed(conn)
	if err == nil && !q.answeredBy(reply) {
		return nil, errors.New("the resolver sent an unrelated response")
	}
	return reply, err
}

func exchangeUDP(conn net.Conn, query []byte, q question) ([]byte, error) {
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	buffer := make([]byte, maxUDPBytes+1) // so that a longer reply is noticed
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		// Any host can send to a UDP socket: unrelated messages are ignored.
		if !q.answeredBy(buffer[:n]) {
			continue
		}
		if n > maxUDPBytes {
			return q.truncated(), nil
		}
		return buffer[:n], nil
	}
}

// A budget is a token bucket: it holds questionsAtOnce and gains questionsPerSecond.
type budget struct {
	mu sync.Mutex
	// full is when the bucket is full again.
	full time.Time
}

const perQuestion = time.Second / questionsPerSecond

// take takes a token and returns how long to wait for it.
func (b *budget) take(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(perQuestion)
	return max(0, b.full.Sub(now)-questionsAtOnce*perQuestion)
}

func (b *budget) wait(ctx context.Context) error {
	pause := b.take(time.Now())
	if pause == 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
