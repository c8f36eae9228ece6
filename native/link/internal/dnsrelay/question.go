package dnsrelay

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A question is the part of a query that the relay needs.
type question struct {
	id          uint16
	recursion   bool
	plain       bool // an ordinary query with one question of class IN
	asked       dnsmessage.Question
	name        string
	maxUDPBytes int
}

var errNoQuestion = errors.New("not a DNS question")

func readQuestion(query []byte) (question, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return question{}, errNoQuestion
	}
	questions, err := parser.AllQuestions()
	if err != nil || len(questions) == 0 {
		return question{}, errNoQuestion
	}
	asked := questions[0]
	return question{
		id: header.ID, recursion: header.RecursionDesired, asked: asked, name: asked.Name.String(),
		plain:       header.OpCode == 0 && len(questions) == 1 && asked.Class == dnsmessage.ClassINET,
		maxUDPBytes: udpSize(&parser),
	}, nil
}

// udpSize is the response size that the client accepts (RFC 6891, 6.2.3).
func udpSize(parser *dnsmessage.Parser) int {
	if parser.SkipAllAnswers() != nil || parser.SkipAllAuthorities() != nil {
		return plainUDPBytes
	}
	for {
		header, err := parser.AdditionalHeader()
		if err != nil {
			return plainUDPBytes
		}
		if header.Type == dnsmessage.TypeOPT {
			return min(max(int(header.Class), plainUDPBytes), maxUDPBytes)
		}
		if parser.SkipAdditional() != nil {
			return plainUDPBytes
		}
	}
}

func (q question) reply(code dnsmessage.RCode) []byte { return q.build(code, false) }

// truncated makes the client repeat the query over TCP.
func (q question) truncated() []byte { return q.build(dnsmessage.RCodeSuccess, true) }

func (q question) build(code dnsmessage.RCode, truncated bool) []byte {
	message := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: q.id, Response: true, RecursionDesired: q.recursion, RecursionAvailable: true, RCode: code, Truncated: truncated,
		},
		Questions: []dnsmessage.Question{q.asked},
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// answeredBy reports whether a message is a response to this question.
func (q question) answeredBy(message []byte) bool {
	var parser dnsmessage.Parser
	header, err := parser.Start(message)
	if err != nil || !header.Response || header.ID != q.id {
		return false
	}
	asked, err := parser.Question()
	return err == nil && asked.Type == q.asked.Type && equalNames(asked.Name, q.asked.Name)
}

// learn returns the addresses of the name, also through aliases.
func (r *Relay) learn(q question, reply []byte) {
	for _, found := range addresses(q, reply) {
		r.Learn(q.name, found.address, found.ttl)
	}
}

type found struct {
	address netip.Addr
	ttl     time.Duration
}

func addresses(q question, reply []byte) []found {
	var parser dnsmessage.Parser
	if _, err := parser.Start(reply); err != nil || parser.SkipAllQuestions() != nil {
		return nil
	}
	owner, all := q.asked.Name, []found(nil)
	for {
		header, err := parser.AnswerHeader()
		if err != nil {
			return all
		}
		switch {
		case header.Type == dnsmessage.TypeA && equalNames(header.Name, owner):
			a, err := parser.AResource()
			if err != nil {
				return all
			}
			all = append(all, found{netip.AddrFrom4(a.A), time.Duration(header.TTL) * time.Second})
		case header.Type == dnsmessage.TypeCNAME && equalNames(header.Name, owner):
			alias, err := parser.CNAMEResource()
			if err != nil {
				return all
			}
			owner = alias.CNAME
		default:
			if parser.SkipAnswer() != nil {
				return all
			}
		}
	}
}

// revealed returns a reply without what resolvers add to the answers, if names in that are hidden. Hidden names in the answers refuse
// the whole reply.
func (r *Relay) revealed(reply []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(reply); err != nil {
		return nil, err
	}
	isHidden := func(record dnsmessage.Resource) bool { return r.Hides(record.Header.Name.String()) }
	if at := slices.IndexFunc(message.Answers, isHidden); at >= 0 {
		r.Hidden(message.Answers[at].Header.Name.String())
		return nil, errHidden
	}
	if !slices.ContainsFunc(message.Authorities, isHidden) && !slices.ContainsFunc(message.Additionals, isHidden) {
		return reply, nil
	}
	message.Authorities, message.Additionals = nil, nil
	return message.Pack()
}

// equalNames compares names as DNS does, ignoring case.
func equalNames(a, b dnsmessage.Name) bool {
	if a.Length != b.Length {
		return false
	}
	for i := range a.Data[:a.Length] {
		if lower(a.Data[i]) != lower(b.Data[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
