package dnsrelay

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"ramet.dev/native/internal/fuzzcheck"
)

// FuzzExchange reads a query of the sandbox, and the bytes that a resolver (or any host that sends to the socket) answers.
func FuzzExchange(f *testing.F) {
	query := packed(f, dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	})
	header := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("a.example."), Class: dnsmessage.ClassINET, TTL: 60}
	aliased := header
	aliased.Name = dnsmessage.MustNewName("b.example.")
	reply := packed(f, dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, Response: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("A.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Answers: []dnsmessage.Resource{
			{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("b.example.")}},
			{Header: aliased, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}},
			{Header: aliased, Body: &dnsmessage.TXTResource{TXT: []string{"x"}}},
		},
	})
	f.Add(query, reply)
	f.Add(query, query)
	f.Add(query[:11], reply[:11])
	f.Add(append(bytes.Clone(query), 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0), reply)
	f.Add([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"), reply) // a name that points to itself
	f.Fuzz(func(t *testing.T, query, reply []byte) {
		fuzzcheck.Input(t, func() {
			q, err := readQuestion(query)
			if err != nil {
				return
			}
			checkReply(t, q, q.reply(dnsmessage.RCodeRefused))
			checkReply(t, q, q.truncated())
			if q.maxUDPBytes < plainUDPBytes || q.maxUDPBytes > maxUDPBytes {
				t.Errorf("the client accepts %d bytes", q.maxUDPBytes)
			}
			if !q.answeredBy(reply) {
				return
			}
			relay := Relay{Hides: func(name string) bool { return name != "a.example." }, Hidden: func(string) {}}
			if kept, err := relay.revealed(reply); err == nil && !q.answeredBy(kept) {
				t.Errorf("%x became %x, which is no answer", reply, kept)
			}
			for _, found := range addresses(q, reply) {
				if !found.address.Is4() || found.ttl < 0 {
					t.Errorf("learned %+v", found)
				}
			}
		})
	})
}

// checkReply fails if the client would not take what link itself responds.
func checkReply(t *testing.T, q question, reply []byte) {
	t.Helper()
	if len(reply) > plainUDPBytes || !q.answeredBy(reply) {
		t.Errorf("%x does not answer %+v", reply, q.asked)
	}
}

// FuzzRelay sends a message to a relay without resolvers that permits one domain.
func FuzzRelay(f *testing.F) {
	for _, name := range []string{"a.allowed.", "a.denied.", "allowed.", ".", "A.ALLOWED."} {
		f.Add(packed(f, dnsmessage.Message{
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeAAAA, Class: dnsmessage.ClassINET}},
		}))
	}
	f.Add(packed(f, dnsmessage.Message{Header: dnsmessage.Header{OpCode: 5}}))
	f.Fuzz(func(t *testing.T, query []byte) {
		fuzzcheck.Input(t, func() {
			asked := ""
			relay := Relay{
				Upstreams: func() []string { return nil },
				Permit: func(name string) bool {
					asked = name
					return strings.HasSuffix(strings.ToLower(name), ".allowed.")
				},
				Learn: func(string, netip.Addr, time.Duration) { t.Error("learned an address without a resolver") },
			}
			reply := relay.answer("udp", query)
			if reply == nil {
				return
			}
			var parser dnsmessage.Parser
			header, err := parser.Start(reply)
			if err != nil || !header.Response {
				t.Fatalf("the reply is %x: %v", reply, err)
			}
			permitted := strings.HasSuffix(strings.ToLower(asked), ".allowed.")
			if header.RCode == dnsmessage.RCodeSuccess && !permitted {
				t.Errorf("a question for %q was answered", asked)
			}
		})
	})
}

func FuzzFramed(f *testing.F) {
	f.Add([]byte("\x00\x03abc"))
	f.Add([]byte("\xff\xffabc"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzcheck.Input(t, func() {
			message, err := readFramed(bytes.NewReader(data))
			if err != nil {
				return
			}
			var again bytes.Buffer
			if err := writeFramed(&again, message); err != nil || !bytes.HasPrefix(data, again.Bytes()) {
				t.Errorf("%x was read as %x: %v", data, message, err)
			}
		})
	})
}

// FuzzLookup resolves a name of a rule or of a client, without resolvers.
func FuzzLookup(f *testing.F) {
	f.Add("example.org")
	f.Add(strings.Repeat("a.", 130))
	f.Add("a\x00b..")
	f.Fuzz(func(t *testing.T, name string) {
		fuzzcheck.Input(t, func() {
			relay := Relay{Upstreams: func() []string { return nil }}
			if _, err := relay.Lookup(context.Background(), name); err == nil {
				t.Errorf("%q has an address", name)
			}
		})
	})
}

func packed(t testing.TB, message dnsmessage.Message) []byte {
	t.Helper()
	data, err := message.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
