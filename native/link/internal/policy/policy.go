package policy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"ramet.dev/native/link/internal/fault"
)

// A Spec is an unparsed egress policy. Deny rules apply first, then allow rules, then the default.
type Spec struct {
	Default string   `json:"default"`
	Allow   []string `json:"allow"`
	Deny    []string `json:"deny"`
	// NarrowedBy holds policies that must allow a connection too, those of the namespace, the template and the sandbox.
	// Their rules open no refused address.
	NarrowedBy []Spec `json:"narrowedBy"`
}

// A Policy is a parsed, immutable Spec.
type Policy struct {
	// layers must all allow a connection. The first one is the operator's.
	layers  []layer
	refused []netip.Prefix
	// names holds the domains whose names are refused unless a rule of the operator names them.
	names []string
}

type layer struct {
	allow, deny []rule
	open        bool // the default
}

// A Verdict is a decision with its reason.
type Verdict struct {
	Allowed bool
	Why     string
	// Name is the name that allowed it, if no address did.
	Name string
}

//go:embed special-addresses.json
var specialJSON []byte

// special holds the addresses that no policy opens by accident. src/base/special-addresses.ts describes them.
var special = func() (s struct {
	Metadata, PodIdentity, Reserved, Private []netip.Prefix
	Names                                    []string
}) {
	if err := json.Unmarshal(specialJSON, &s); err != nil {
		panic(err)
	}
	return s
}()

// New parses a spec. refuse holds the cluster's ranges, domains its DNS domains other than cluster.local.
func New(spec Spec, refuse []string, domains ...string) (*Policy, error) {
	p := &Policy{refused: slices.Clone(special.Reserved), names: slices.Clone(special.Names)}
	for _, domain := range domains {
		p.names = append(p.names, normalName(domain))
	}
	if err := p.addLayer("", spec); err != nil {
		return nil, err
	}
	for i, text := range refuse {
		prefix, ok := parsePrefix(text)
		if !ok {
			return nil, fault.New("InvalidArgument", "Write ranges like 10.96.0.0/12", "Reading link's configuration failed: refuse[%d] is %q, not an IPv4 range", i, text)
		}
		p.refused = append(p.refused, prefix)
	}
	for i, narrower := range spec.NarrowedBy {
		path := fmt.Sprintf("narrowedBy[%d].", i)
		if len(narrower.NarrowedBy) > 0 {
			return nil, fault.New("InvalidArgument", "", "Reading the egress policy failed: %snarrowedBy is not supported", path)
		}
		if err := p.addLayer(path, narrower); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Policy) addLayer(path string, spec Spec) (err error) {
	l := layer{open: spec.Default != "deny"}
	if l.open && spec.Default != "allow" && spec.Default != "" {
		return fault.New("InvalidArgument", `Write "allow" or "deny"`, "Reading the egress policy failed: %sdefault is %q", path, spec.Default)
	}
	if l.allow, err = parseRules(path+"allow", spec.Allow); err != nil {
		return err
	}
	if l.deny, err = parseRules(path+"deny", spec.Deny); err != nil {
		return err
	}
	p.layers = append(p.layers, l)
	return nil
}

// Connection decides on a TCP connection to an address that the sandbox has resolved from names (possibly none). own holds
// the addresses of the Pod or node that link runs on.
func (p *Policy) Connection(to netip.AddrPort, names []string, own []netip.Addr) Verdict {
	contains := func(m netip.Prefix) bool { return m.Contains(to.Addr()) }
	if slices.ContainsFunc(special.Metadata, contains) && !slices.ContainsFunc(special.PodIdentity, contains) {
		return Verdict{Why: "metadata services and link-local addresses are always refused"}
	}
	refused, what := p.reserved(to.Addr(), own)
	verdict := p.layers[0].decide(to, names, refused, what)
	for _, l := range p.layers[1:] {
		if !verdict.Allowed {
			break
		}
		narrower := l.decide(to, names, netip.Prefix{}, "")
		if narrower.Allowed && narrower.Name == "" {
			narrower.Name = verdict.Name
		}
		verdict = narrower
	}
	return verdict
}

// decide returns the decision of one layer. refused is the range of the address that only a rule opens that names an address
// or range inside; what describes it, and is empty if there is none.
func (l layer) decide(to netip.AddrPort, names []string, refused netip.Prefix, what string) Verdict {
	for _, r := range l.deny {
		if r.matchesPort(to.Port()) && (r.matchesAddress(to.Addr()) || matchesAny(r, names) != "") {
			return Verdict{Why: fmt.Sprintf("the rule deny %s", r.text)}
		}
	}
	byAddress := func(r rule) bool { return r.matchesPort(to.Port()) && r.matchesAddress(to.Addr()) }
	if what != "" {
		if slices.ContainsFunc(l.allow, func(r rule) bool { return byAddress(r) && r.within(refused) }) {
			return Verdict{Allowed: true}
		}
		return Verdict{Why: what + " are refused unless a rule names them"}
	}
	if l.open || slices.ContainsFunc(l.allow, byAddress) {
		return Verdict{Allowed: true}
	}
	for _, r := range l.allow {
		if name := matchesAny(r, names); r.matchesPort(to.Port()) && name != "" {
			return Verdict{Allowed: true, Name: name}
		}
	}
	return Verdict{Why: "no rule allows it"}
}

// Question decides whether a name may be resolved: a DNS query itself can send data out.
func (p *Policy) Question(name string) bool {
	if p.Private(name) {
		return false
	}
	name = normalName(name)
	return !slices.ContainsFunc(p.layers, func(l layer) bool { return !l.question(name) })
}

func (l layer) question(name string) bool {
	for _, r := range l.deny {
		if r.port == 0 && r.matchesName(name) {
			return false
		}
	}
	return l.open || slices.ContainsFunc(l.allow, func(r rule) bool { return r.matchesName(name) })
}

// AllowsNames reports whether an allow rule has a name.
func (p *Policy) AllowsNames() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return slices.ContainsFunc(l.allow, rule.byName) })
}

// DeniesNames reports whether a deny rule has a name.
func (p *Policy) DeniesNames() bool {
	return slices.ContainsFunc(p.layers, func(l layer) bool { return slices.ContainsFunc(l.deny, rule.byName) })
}

// SpelledOut returns the names without wildcard in allow rules for that port that may be resolved.
func (p *Policy) SpelledOut(port uint16) []string {
	var names []string
	for _, l := range p.layers {
		for _, r := range l.allow {
			if r.name != "" && !r.below && r.matchesPort(port) && p.Question(r.name) {
				names = append(names, r.name)
			}
		}
	}
	return names
}

// Private reports whether a name belongs to the cluster or a private network and no rule of the operator names it.
func (p *Policy) Private(name string) bool {
	name = normalName(name)
	allow := p.layers[0].allow
	for _, domain := range p.names {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			return !slices.ContainsFunc(allow, func(r rule) bool { return r.byName() && r.matchesName(name) })
		}
	}
	asked, ok := reversePrefix(name)
	if !ok {
		return isPrivateReverse6(name)
	}
	for _, prefixes := range [][]netip.Prefix{special.Metadata, special.Private, p.refused} {
		for _, private := range prefixes {
			if private.Bits() <= asked.Bits() && private.Contains(asked.Addr()) {
				return !slices.ContainsFunc(allow, func(r rule) bool {
					return r.within(private) && r.prefix.Bits() <= asked.Bits() && r.prefix.Contains(asked.Addr())
				})
			}
		}
	}
	return false
}

func (p *Policy) reserved(address netip.Addr, own []netip.Addr) (netip.Prefix, string) {
	if slices.Contains(own, address) {
		return netip.PrefixFrom(address, 32), "addresses of the Pod and its node"
	}
	for _, prefix := range special.PodIdentity {
		if prefix.Contains(address) {
			return prefix, "credentials of Pods"
		}
	}
	for i, prefix := range p.refused {
		if prefix.Contains(address) {
			if i < len(special.Reserved) {
				return prefix, "loopback, multicast and special-purpose addresses"
			}
			return prefix, "addresses of the cluster"
		}
	}
	return netip.Prefix{}, ""
}

func matchesAny(r rule, names []string) string {
	for _, name := range names {
		if r.matchesName(name) {
			return name
		}
	}
	return ""
}

func parseRules(field string, texts []string) ([]rule, error) {
	rules := make([]rule, 0, len(texts))
	for i, text := range texts {
		r, err := parseRule(fmt.Sprintf("%s[%d]", field, i), text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}
