package policy

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ramet.dev/native/internal/fuzzcheck"
)

func FuzzRule(f *testing.F) {
	text, err := os.ReadFile("testdata/rules.json")
	if err != nil {
		f.Fatal(err)
	}
	var rules struct{ Valid, Invalid []string }
	if err := json.Unmarshal(text, &rules); err != nil {
		f.Fatal(err)
	}
	for _, rule := range slices.Concat(rules.Valid, rules.Invalid) {
		f.Add(rule, "a.example.org", uint32(10<<24|1), uint16(443))
	}
	f.Fuzz(func(t *testing.T, text, name string, address uint32, port uint16) {
		fuzzcheck.Input(t, func() {
			r, err := parseRule("allow[0]", text)
			if err != nil {
				return
			}
			kinds := 0
			for _, is := range []bool{r.any, r.byName(), r.prefix.IsValid()} {
				if is {
					kinds++
				}
			}
			if kinds != 1 {
				t.Errorf("%q is %+v", text, r)
			}
			checkDecisions(t, text, normalName(name), netip.AddrPortFrom(addressOf(address), port))
		})
	})
}

// checkDecisions checks what holds for every rule: nothing opens metadata services, and denying wins.
func checkDecisions(t *testing.T, rule, name string, to netip.AddrPort) {
	t.Helper()
	names := []string{name}
	allowing, err := New(Spec{Default: "deny", Allow: []string{rule}}, []string{"10.96.0.0/12"})
	if err != nil {
		t.Fatal(err)
	}
	denying, err := New(Spec{Allow: []string{"*", rule}, Deny: []string{rule}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	allowed := allowing.Connection(to, names, nil).Allowed
	if allowed && denying.Connection(to, names, nil).Allowed {
		t.Errorf("%q both allows and does not deny %s (%q)", rule, to, name)
	}
	if allowed && slices.ContainsFunc(special.Metadata, func(p netip.Prefix) bool { return p.Contains(to.Addr()) }) {
		t.Errorf("%q opens %s", rule, to)
	}
	if allowing.Question(name) && strings.HasSuffix(name, ".cluster.local") && !strings.Contains(rule, "local") {
		t.Errorf("%q opens the cluster's name %q", rule, name)
	}
	_ = allowing.SpelledOut(to.Port())
}

func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"default":"deny","allow":["*.a.example:443"],"deny":["10.0.0.0/8"],"narrowedBy":[{"default":"allow"}]}`), "b.a.example", uint32(1))
	f.Add([]byte(`{"narrowedBy":[{"narrowedBy":[{}]}]}`), "1.0.96.10.in-addr.arpa", uint32(10<<24))
	f.Add([]byte(`{"allow":["0.0.0.0/0"]}`), "256.in-addr.arpa", uint32(169<<24|254<<16))
	f.Fuzz(func(t *testing.T, text []byte, name string, address uint32) {
		fuzzcheck.Input(t, func() {
			var spec Spec
			if json.Unmarshal(text, &spec) != nil {
				return
			}
			p, err := New(spec, []string{"10.96.0.0/12"}, name)
			if err != nil {
				return
			}
			to := netip.AddrPortFrom(addressOf(address), 443)
			verdict := p.Connection(to, []string{name}, nil)
			if verdict.Allowed != (verdict.Why == "") {
				t.Errorf("the verdict is %+v", verdict)
			}
			// A narrower level opens nothing.
			narrow := slices.Clone(spec.NarrowedBy)
			spec.NarrowedBy = append(narrow, Spec{Allow: []string{"*", to.Addr().String()}})
			narrowed, err := New(spec, []string{"10.96.0.0/12"}, name)
			if err != nil {
				t.Fatal(err)
			}
			if narrowed.Connection(to, []string{name}, nil).Allowed && !verdict.Allowed {
				t.Errorf("a narrower level opens %s", to)
			}
			if narrowed.Question(name) && !p.Question(name) {
				t.Errorf("a narrower level opens %q", name)
			}
		})
	})
}

func FuzzNames(f *testing.F) {
	f.Add("Example.org.", uint32(1), int64(60))
	f.Add("", uint32(0), int64(-1))
	now := time.Unix(0, 0)
	names := Names{Now: func() time.Time { return now }}
	f.Fuzz(func(t *testing.T, name string, address uint32, ttl int64) {
		fuzzcheck.Input(t, func() {
			now = now.Add(time.Second)
			names.Learn(name, addressOf(address), time.Duration(ttl))
			if !slices.Contains(names.Of(addressOf(address)), normalName(name)) {
				t.Errorf("%q was not learned", name)
			}
			if names.count > maxNames {
				t.Errorf("%d names are kept", names.count)
			}
		})
	})
}

func addressOf(number uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)})
}
