package dnsrelay

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func record(name string) dnsmessage.Resource {
	header := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Class: dnsmessage.ClassINET, Type: dnsmessage.TypeA}
	return dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}
}

func TestHiddenNamesRefuseAnswersAndAreRemovedElsewhere(t *testing.T) {
	var refused []string
	relay := Relay{
		Hides:  func(name string) bool { return strings.HasSuffix(name, ".internal.") },
		Hidden: func(name string) { refused = append(refused, name) },
	}
	outside, inside := record("a.example."), record("ns1.corp.internal.")
	both := []dnsmessage.Resource{outside, inside}
	for _, test := range []struct {
		about      string
		message    dnsmessage.Message
		wantHidden bool
		wantOthers int
	}{
		{"no hidden name", dnsmessage.Message{Answers: both[:1], Additionals: both[:1]}, false, 1},
		{"a hidden answer", dnsmessage.Message{Answers: both}, true, 0},
		{"a hidden authority", dnsmessage.Message{Answers: both[:1], Authorities: both}, false, 0},
		{"hidden glue", dnsmessage.Message{Answers: both[:1], Additionals: both}, false, 0},
	} {
		packed, err := test.message.Pack()
		if err != nil {
			t.Fatal(err)
		}
		reply, err := relay.revealed(packed)
		if got := errors.Is(err, errHidden); got != test.wantHidden {
			t.Errorf("%s: hidden is %v, want %v (%v)", test.about, got, test.wantHidden, err)
		}
		if test.wantHidden {
			continue
		}
		var message dnsmessage.Message
		if err := message.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		if others := len(message.Authorities) + len(message.Additionals); len(message.Answers) != 1 || others != test.wantOthers {
			t.Errorf("%s: %d answers and %d others, want 1 and %d", test.about, len(message.Answers), others, test.wantOthers)
		}
	}
	if len(refused) != 1 || refused[0] != "ns1.corp.internal." {
		t.Errorf("reported as refused: %q", refused)
	}
	if reply, err := relay.revealed([]byte("no DNS")); err == nil {
		t.Errorf("a malformed reply becomes %q", reply)
	}
}
