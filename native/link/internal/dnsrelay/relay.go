// Package dnsrelay forwards the sandbox's DNS queries to the resolvers of the Pod or machine.
package dnsrelay

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A Relay forwards permitted queries. It has no cache.
type Relay struct {
	// Upstreams are the resolvers' addresses with port, in order of preference.
	Upstreams func() []string
	// Permit reports whether a name may be resolved now.
	Permit func(name string) bool
	// Hides reports whether a name belongs to the cluster or a private network: whoever owns a name can make it an alias of another.
	Hides func(name string) bool
	// Hidden is called with each such name for which an answer is refused.
	Hidden func(name string)
	// Learn is called with each address of a resolved name.
	Learn func(name string, address netip.Addr, ttl time.Duration)

	budget budget
}

const (
	// questionsPerSecond limits what one sandbox asks of the resolvers, which others use too. Further questions wait.
	questionsPerSecond = 50
	// questionsAtOnce can be asked after a pause without waiting.
	questionsAtOnce    = 200
	maxQuestionsAtOnce = 128
	maxConnsAtOnce     = 32
	tcpIdle            = 10 * time.Second
	answerTimeout      = 8 * time.Second
	plainUDPBytes      = 512
	maxUDPBytes        = 4096
	// truncatedBit is in the third byte of a message.
	truncatedBit = 0x02
)

// ServeUDP serves until the socket is closed. Queries above its limit of concurrent ones are dropped: clients repeat them.
func (r *Relay) ServeUDP(conn *net.UDPConn) {
	slots := make(chan struct{}, maxQuestionsAtOnce)
	buffer := make([]byte, maxUDPBytes)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		query := append([]byte(nil), buffer[:n]...)
		go func() {
			defer func() { <-slots }()
			if reply := r.answer("udp", query); reply != nil {
				_, _ = conn.WriteToUDPAddrPort(reply, from)
			}
		}()
	}
}

// ServeTCP serves until the listener is closed.
func (r *Relay) ServeTCP(listener net.Listener) {
	slots := make(chan struct{}, maxConnsAtOnce)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots; _ = conn.Close() }()
				r.serveConn(conn)
			}()
		default:
			_ = conn.Close()
		}
	}
}

func (r *Relay) serveConn(conn net.Conn) {
	for {
		_ = conn.SetDeadline(time.Now().Add(tcpIdle))
		query, err := readFramed(conn)
		if err != nil {
			return
		}
		reply := r.answer("tcp", query)
		if reply == nil || writeFramed(conn, reply) != nil {
			return
		}
	}
}

// answer returns the response for the client; nil if the message is not a query.
func (r *Relay) answer(network string, query []byte) []byte {
	q, err := readQuestion(query)
	if err != nil {
		return nil
	}
	switch {
	case !q.plain:
		return q.reply(dnsmessage.RCodeNotImplemented)
	case !r.Permit(q.name):
		return q.reply(dnsmessage.RCodeRefused)
	case q.asked.Type == dnsmessage.TypeAAAA:
		return q.reply(dnsmessage.RCodeSuccess) // IPv6 is not supported: the name exists without such an address
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	reply, err := r.ask(ctx, network, query, q)
	if errors.Is(err, errHidden) {
		return q.reply(dnsmessage.RCodeRefused)
	}
	if err != nil {
		return q.reply(dnsmessage.RCodeServerFailure)
	}
	r.learn(q, reply)
	if network == "udp" && (len(reply) > q.maxUDPBytes || reply[2]&truncatedBit != 0) {
		return q.truncated()
	}
	return reply
}

func readFramed(conn io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, message)
	return message, err
}

func writeFramed(conn io.Writer, message []byte) error {
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(message)+2), uint16(len(message)))
	_, err := conn.Write(append(framed, message...))
	return err
}
