package policy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"ramet.dev/native/link/internal/fault"
)

// A Spec is an unparsed egress policy. Deny rules apply first, then allow rules, then the default.
type Spec struct {
	Default string   `json:"default"`
	Allow   []string `json:"allow"`
	Deny    []string `json:"deny"`
}

// A Policy is a parsed, immutable Spec.
type Policy struct {
	allow, deny []rule
	open        bool // the default
	refused     []netip.Prefix
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
var special = func() (s struct{ Metadata, Reserved, Private []netip.Prefix }) {
	if err := json.Unmarshal(specialJSON, &s); err != nil {
		panic(err)
	}
	return s
}()

// New parses a spec. refuse holds the cluster's ranges.
func New(spec Spec, refuse []string) (*Policy, error) {
	p := &Policy{refused: slices.Clone(special.Reserved)}
	switch spec.Default {
	case "allow", "":
		p.open = true
	case "deny":
	default:
		return nil, fault.New("InvalidArgument", `Write "allow" or "deny"`, "Reading the egress policy failed: default is %q", spec.Default)
	}
	for i, text := range refuse {
		prefix, ok := parsePrefix(text)
		if !ok {
			return nil, fault.New("InvalidArgument", "Write ranges like 10.96.0.0/12", "Reading link's configuration failed: refuse[%d] is %q, not an IPv4 range", i, text)
		}
		p.refused = append(p.refused, prefix)
	}
	var err error
	if p.allow, err = parseRules("allow", spec.Allow); err != nil {
		return nil, err
	}
	p.deny, err = parseRules("deny", spec.Deny)
	return p, err
}

// Connection decides on a TCP connection to an address that the sandbox has resolved from names (possibly none). own holds
// the addresses of the Pod or node that link runs on.
func (p *Policy) Connection(to netip.AddrPort, names []string, own []netip.Addr) Verdict {
	if slices.ContainsFunc(special.Metadata, func(m netip.Prefix) bool { return m.Contains(to.Addr()) }) {
		return Verdict{Why: "metadata services and link-local addresses are always refused"}
	}
	for _, r := range p.deny {
		if r.matchesPort(to.Port()) && (r.matchesAddress(to.Addr()) || matchesAny(r, names) != "") {
			return Verdict{Why: fmt.Sprintf("the rule deny %s", r.text)}
		}
	}
	if refused, what := p.reserved(to.Addr(), own); what != "" {
		for _, r := range p.allow {
			if r.matchesPort(to.Port()) && r.matchesAddress(to.Addr()) && r.within(refused) {
				return Verdict{Allowed: true}
			}
		}
		return Verdict{Why: what + " are refused unless a rule names them"}
	}
	if p.open || slices.ContainsFunc(p.allow, func(r rule) bool { return r.matchesPort(to.Port()) && r.matchesAddress(to.Addr()) }) {
		return Verdict{Allowed: true}
	}
	for _, r := range p.allow {
		if name := matchesAny(r, names); r.matchesPort(to.Port()) && name != "" {
			return Verdict{Allowed: true, Name: name}
		}
	}
	return Verdict{Why: "no rule allows it"}
}

// Question decides whether a name may be resolved: a DNS query itself can send data out.
func (p *Policy) Question(name string) bool {
	name = normalName(name)
	for _, r := range p.deny {
		if r.port == 0 && r.matchesName(name) {
			return false
		}
	}
	return p.open || slices.ContainsFunc(p.allow, func(r rule) bool { return r.matchesName(name) })
}

// AllowsNames reports whether an allow rule has a name.
func (p *Policy) AllowsNames() bool { return slices.ContainsFunc(p.allow, rule.byName) }

// DeniesNames reports whether a deny rule has a name.
func (p *Policy) DeniesNames() bool { return slices.ContainsFunc(p.deny, rule.byName) }

// SpelledOut returns the names without wildcard in allow rules for that port.
func (p *Policy) SpelledOut(port uint16) []string {
	var names []string
	for _, r := range p.allow {
		if r.name != "" && !r.below && r.matchesPort(port) {
			names = append(names, r.name)
		}
	}
	return names
}

func (p *Policy) reserved(address netip.Addr, own []netip.Addr) (netip.Prefix, string) {
	if slices.Contains(own, address) {
		return netip.PrefixFrom(address, 32), "addresses of the Pod and its node"
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
