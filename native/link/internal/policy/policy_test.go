package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConnection(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.1.2.3")}
	refuse := []string{"10.96.0.0/12"}
	for _, c := range []struct {
		name  string
		spec  Spec
		to    string
		names []string
		want  bool
	}{
		{"everything by default", Spec{}, "93.184.215.14:443", nil, true},
		{"nothing when the default is deny", Spec{Default: "deny"}, "93.184.215.14:443", nil, false},
		{"an address", Spec{Default: "deny", Allow: []string{"93.184.215.14"}}, "93.184.215.14:443", nil, true},
		{"an address with another port", Spec{Default: "deny", Allow: []string{"93.184.215.14:80"}}, "93.184.215.14:443", nil, false},
		{"a range", Spec{Default: "deny", Allow: []string{"93.0.0.0/8"}}, "93.184.215.14:443", nil, true},
		{"a range written from its middle", Spec{Default: "deny", Allow: []string{"93.184.0.1/8"}}, "93.1.1.1:443", nil, true},
		{"deny before allow", Spec{Allow: []string{"93.184.215.14"}, Deny: []string{"93.0.0.0/8"}}, "93.184.215.14:443", nil, false},
		{"a name that the sandbox has resolved", Spec{Default: "deny", Allow: []string{"Example.org."}}, "93.184.215.14:443", []string{"example.org"}, true},
		{"a name that the sandbox has not resolved", Spec{Default: "deny", Allow: []string{"example.org"}}, "93.184.215.14:443", nil, false},
		{"a subdomain", Spec{Default: "deny", Allow: []string{"*.example.org:443"}}, "93.184.215.14:443", []string{"a.b.example.org"}, true},
		{"a wildcard does not match its own domain", Spec{Default: "deny", Allow: []string{"*.example.org"}}, "93.184.215.14:443", []string{"example.org"}, false},
		{"a wildcard matches whole labels only", Spec{Default: "deny", Allow: []string{"*.example.org"}}, "93.184.215.14:443", []string{"evilexample.org"}, false},
		{"a denied name", Spec{Deny: []string{"*.example.org"}}, "93.184.215.14:443", []string{"a.example.org"}, false},
		{"metadata", Spec{Allow: []string{"*", "0.0.0.0/0", "169.0.0.0/8"}}, "169.254.169.254:80", nil, false},
		{"metadata, named", Spec{Allow: []string{"169.254.169.254:80"}}, "169.254.169.254:80", nil, false},
		{"credentials of Pods", Spec{Allow: []string{"*", "0.0.0.0/0", "169.254.0.0/16"}}, "169.254.170.23:80", nil, false},
		{"credentials of Pods, named", Spec{Allow: []string{"169.254.170.23:80"}}, "169.254.170.23:80", nil, true},
		{"credentials of Pods, named by a narrower policy", narrowed(Spec{}, Spec{Allow: []string{"169.254.170.23"}}), "169.254.170.23:80", nil, false},
		{"a name that points to credentials of Pods", Spec{Allow: []string{"evil.org"}}, "169.254.170.23:80", []string{"evil.org"}, false},
		{"the neighbour of credentials of Pods", Spec{Allow: []string{"169.254.170.22"}}, "169.254.170.22:80", nil, false},
		{"metadata of Azure", Spec{}, "168.63.129.16:80", nil, false},
		{"metadata of Azure, named", Spec{Allow: []string{"168.63.129.16"}}, "168.63.129.16:32526", nil, false},
		{"metadata of Alibaba Cloud", Spec{}, "100.100.100.200:80", nil, false},
		{"metadata of Alibaba Cloud, named", Spec{Allow: []string{"100.100.100.200:80"}}, "100.100.100.200:80", nil, false},
		{"metadata of Oracle Cloud", Spec{}, "192.0.0.192:80", nil, false},
		{"Pods on EKS", Spec{}, "198.19.3.4:80", nil, false},
		{"Pods on EKS, named", Spec{Allow: []string{"198.19.3.4:80"}}, "198.19.3.4:80", nil, true},
		{"Pods on EKS, named with another port", Spec{Allow: []string{"198.19.3.4:80"}}, "198.19.3.4:81", nil, false},
		{"the neighbour of a special address", Spec{}, "168.63.129.17:80", nil, true},
		{"a name that points to metadata", Spec{Allow: []string{"evil.org"}}, "169.254.169.254:80", []string{"evil.org"}, false},
		{"loopback", Spec{}, "127.0.0.1:49980", nil, false},
		{"this Pod", Spec{Allow: []string{"10.0.0.0/8"}}, "10.1.2.3:49980", nil, false},
		{"the cluster", Spec{Allow: []string{"10.0.0.0/8"}}, "10.96.0.1:443", nil, false},
		{"a service of the cluster, named", Spec{Allow: []string{"10.96.7.7:5432"}}, "10.96.7.7:5432", nil, true},
		{"a part of the cluster, named", Spec{Allow: []string{"10.96.7.0/24"}}, "10.96.7.7:5432", nil, true},
		{"an address that a narrower policy allows too", narrowed(Spec{}, Spec{Default: "deny", Allow: []string{"93.0.0.0/8"}}), "93.184.215.14:443", nil, true},
		{"an address that a narrower policy denies", narrowed(Spec{}, Spec{Deny: []string{"93.0.0.0/8"}}), "93.184.215.14:443", nil, false},
		{"an address that a narrower policy does not allow", narrowed(Spec{}, Spec{}, Spec{Default: "deny"}), "93.184.215.14:443", nil, false},
		{"an address that only a narrower policy allows", narrowed(Spec{Default: "deny"}, Spec{Allow: []string{"*", "93.184.215.14"}}), "93.184.215.14:443", nil, false},
		{"a name and an address of two policies", narrowed(Spec{Default: "deny", Allow: []string{"93.0.0.0/8"}}, Spec{Default: "deny", Allow: []string{"example.org"}}), "93.184.215.14:443", []string{"example.org"}, true},
		{"the cluster, named by a narrower policy", narrowed(Spec{}, Spec{Allow: []string{"10.96.7.7"}}), "10.96.7.7:5432", nil, false},
		{"this Pod, named by a narrower policy", narrowed(Spec{}, Spec{Default: "deny", Allow: []string{"10.1.2.3"}}), "10.1.2.3:49980", nil, false},
		{"the cluster, named by both", narrowed(Spec{Allow: []string{"10.96.0.0/12"}}, Spec{Default: "deny", Allow: []string{"10.96.7.7"}}), "10.96.7.7:5432", nil, true},
		{"the cluster, named by the operator and not denied", narrowed(Spec{Allow: []string{"10.96.0.0/12"}}, Spec{}), "10.96.7.7:5432", nil, true},
		{"a denied address of the cluster, named", Spec{Allow: []string{"10.96.7.7"}, Deny: []string{"*:5432"}}, "10.96.7.7:5432", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.spec, refuse)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Connection(netip.MustParseAddrPort(c.to), c.names, own)
			if got.Allowed != c.want {
				t.Errorf("allowed %v, want %v (%s)", got.Allowed, c.want, got.Why)
			}
			if !got.Allowed && got.Why == "" {
				t.Error("refused without a reason")
			}
		})
	}
}

func narrowed(spec Spec, by ...Spec) Spec {
	spec.NarrowedBy = by
	return spec
}

func TestRulesOfTwoPoliciesByName(t *testing.T) {
	p, err := New(narrowed(Spec{Default: "deny", Allow: []string{"*.example.org"}}, Spec{Default: "deny", Allow: []string{"a.example.org", "evil.org:443"}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a.example.org": true, "b.example.org": false, "evil.org": false} {
		if got := p.Question(name); got != want {
			t.Errorf("question for %s: %v, want %v", name, got, want)
		}
	}
	if got := p.SpelledOut(443); !slices.Equal(got, []string{"a.example.org"}) {
		t.Errorf("link resolves %v itself", got)
	}
}

// src/api/egress/egress-rules.test.ts reads the same file.
func TestRulesAreReadAsByTheControllers(t *testing.T) {
	content, err := os.ReadFile("testdata/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var texts struct{ Valid, Invalid []string }
	if err := json.Unmarshal(content, &texts); err != nil {
		t.Fatal(err)
	}
	for _, text := range texts.Valid {
		if _, err := parseRule("allow[0]", text); err != nil {
			t.Errorf("rule %q: %v", text, err)
		}
	}
	for _, text := range texts.Invalid {
		if r, err := parseRule("allow[0]", text); err == nil {
			t.Errorf("rule %q is read as %+v", text, r)
		}
	}
}

func TestQuestion(t *testing.T) {
	p, err := New(Spec{Default: "deny", Allow: []string{"example.org:443", "*.internal", "10.0.0.0/8"}, Deny: []string{"secret.internal"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"example.org.": true, "EXAMPLE.org.": true, "a.example.org.": false, "db.internal.": true,
		"secret.internal.": false, "evil.org.": false,
	} {
		if got := p.Question(name); got != want {
			t.Errorf("question for %s: %v, want %v", name, got, want)
		}
	}
}

func TestNewNamesInvalidRules(t *testing.T) {
	for _, text := range []string{"", "10.0.0.0/33", "10.0.0.999", "a b", "x:0", "x:70000", "::1", "*.", "a..b", "1.2.3"} {
		_, err := New(Spec{Deny: []string{"10.0.0.1", text}}, nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("deny[1] is %q", text)) {
			t.Errorf("rule %q: %v", text, err)
		}
	}
	if _, err := New(Spec{Default: "maybe"}, nil); err == nil {
		t.Error("default maybe was taken")
	}
	if _, err := New(narrowed(Spec{}, Spec{}, Spec{Allow: []string{"1.2.3"}}), nil); err == nil || !strings.Contains(err.Error(), "narrowedBy[1].allow[0]") {
		t.Errorf("the rule of a narrower policy: %v", err)
	}
	if _, err := New(Spec{}, []string{"example.org"}); err == nil {
		t.Error("refuse example.org was taken")
	}
}

func TestQuestionsForPrivateNames(t *testing.T) {
	open := Spec{Allow: []string{"*"}}
	for _, c := range []struct {
		what string
		spec Spec
		name string
		want bool
	}{
		{"a service", open, "kubernetes.default.svc", false},
		{"a service in full", open, "Kubernetes.default.svc.cluster.local.", false},
		{"a service in the cluster's own domain", open, "kubernetes.default.svc.k8s.example", false},
		{"the domain itself", open, "cluster.local", false},
		{"the cloud's metadata by name", open, "metadata.google.internal", false},
		{"a name that only ends alike", open, "example-internal", true},
		{"a service that a rule names", Spec{Allow: []string{"db.team-a.svc.cluster.local:5432"}}, "db.team-a.svc.cluster.local", true},
		{"another service", Spec{Allow: []string{"db.team-a.svc.cluster.local:5432"}}, "db.team-b.svc.cluster.local", false},
		{"services below a rule", Spec{Allow: []string{"*.svc.cluster.local"}}, "db.team-b.svc.cluster.local", true},
		{"a service that only a narrower policy names", narrowed(open, Spec{Allow: []string{"db.team-a.svc"}}), "db.team-a.svc", false},
		{"a service that a narrower policy does not allow", narrowed(Spec{Allow: []string{"*.svc"}}, Spec{Default: "deny"}), "db.team-a.svc", false},
		{"the address of a service", open, "1.0.96.10.in-addr.arpa", false},
		{"the zone of a private range", open, "168.192.in-addr.arpa", false},
		{"services in the zone of a private range", open, "_dns-sd._udp.1.16.172.in-addr.arpa", false},
		{"an address in the cluster's range", open, "9.113.0.203.in-addr.arpa", false},
		{"the metadata address", open, "254.169.254.169.in-addr.arpa", false},
		{"a public address", open, "8.8.8.8.in-addr.arpa", true},
		{"a zone with public and private addresses", open, "172.in-addr.arpa", true},
		{"a private address that a rule names", Spec{Allow: []string{"10.20.0.0/16"}}, "1.0.20.10.in-addr.arpa", true},
		{"a private address beside it", Spec{Allow: []string{"10.20.0.0/16"}}, "1.0.21.10.in-addr.arpa", false},
		{"a private IPv6 address", open, "1.0.0.d.f.ip6.arpa", false},
		{"a public IPv6 address", open, "1.0.0.2.ip6.arpa", true},
	} {
		p, err := New(c.spec, []string{"203.0.113.0/24"}, "k8s.example")
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Question(c.name); got != c.want {
			t.Errorf("%s (%s): %v, want %v", c.what, c.name, got, c.want)
		}
	}
}

func TestNamesExpireAndStayBounded(t *testing.T) {
	now := time.Unix(0, 0)
	names := Names{Now: func() time.Time { return now }}
	address := netip.MustParseAddr("192.0.2.1")
	names.Learn("Example.org.", address, time.Hour)
	now = now.Add(59 * time.Minute)
	if got := names.Of(address); len(got) != 1 || got[0] != "example.org" {
		t.Errorf("after 59 minutes: %v", got)
	}
	now = now.Add(2 * time.Minute)
	if got := names.Of(address); len(got) != 0 {
		t.Errorf("after its time: %v", got)
	}
	for i := range 3 * maxNames {
		names.Learn(fmt.Sprintf("n%d.example.org", i), address, time.Hour)
	}
	if got := len(names.Of(address)); got > maxNames || got < maxNames/2 {
		t.Errorf("%d names are kept, of at most %d", got, maxNames)
	}
}
