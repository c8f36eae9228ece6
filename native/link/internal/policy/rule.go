// Package policy decides which connections may leave a sandbox. It is pure: it does no I/O.
package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"ramet.dev/native/link/internal/fault"
)

// A rule matches an address range, a name, or everything, optionally for a single port.
type rule struct {
	text   string
	prefix netip.Prefix // valid: matches by address
	name   string       // not empty: matches by name
	below  bool         // *.name: every name below it, and not the name itself
	any    bool         // *
	port   uint16       // 0: every port
}

// parseRule reads `address`, `address/bits`, `name`, `*.name` or `*`, each with an optional `:port`.
func parseRule(field, text string) (rule, error) {
	r := rule{text: text}
	target := text
	if strings.Count(text, ":") > 1 {
		return r, wrong(field, text, "IPv6 is not supported")
	}
	if host, port, found := strings.Cut(text, ":"); found {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return r, wrong(field, text, "the port is not from 1 to 65535")
		}
		target, r.port = host, uint16(number)
	}
	if target == "*" {
		r.any = true
		return r, nil
	}
	if prefix, ok := parsePrefix(target); ok {
		r.prefix = prefix
		return r, nil
	}
	r.name = normalName(target)
	r.name, r.below = strings.CutPrefix(r.name, "*.")
	if !legalName(r.name) {
		return r, wrong(field, text, "it is not an IPv4 address, range or name")
	}
	return r, nil
}

func parsePrefix(text string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
		return netip.PrefixFrom(address, 32), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err == nil && prefix.Addr().Is4()
}

func (r rule) byName() bool { return r.name != "" }

func (r rule) matchesPort(port uint16) bool { return r.port == 0 || r.port == port }

func (r rule) matchesAddress(address netip.Addr) bool {
	return r.any || r.prefix.IsValid() && r.prefix.Contains(address)
}

func (r rule) matchesName(name string) bool {
	switch {
	case r.any:
		return true
	case r.name == "":
		return false
	case r.below:
		return strings.HasSuffix(name, "."+r.name)
	}
	return name == r.name
}

// within reports whether the rule explicitly names an address or range inside the prefix.
func (r rule) within(prefix netip.Prefix) bool {
	return r.prefix.IsValid() && r.prefix.Bits() >= prefix.Bits() && prefix.Contains(r.prefix.Addr())
}

// normalName returns a name for comparison: in lower case, without a trailing dot.
func normalName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

func legalName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	letters := false
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range label {
			letter := c >= 'a' && c <= 'z' || c == '_' || c == '-'
			if !letter && (c < '0' || c > '9') {
				return false
			}
			letters = letters || letter
		}
	}
	return letters // digits and dots alone are a mistyped address
}

func wrong(field, text, why string) *fault.Fault {
	return fault.New("InvalidArgument", "A rule is an IPv4 address, a range like 10.0.0.0/8, a name, *.name or *, each with an optional :port",
		"Reading the egress policy failed: %s is %q: %s", field, text, why)
}

// reversePrefix returns the addresses below a name of the reverse zone: 2.1.10.in-addr.arpa is 10.1.2.0/24.
func reversePrefix(name string) (netip.Prefix, bool) {
	below, found := strings.CutSuffix(name, ".in-addr.arpa")
	if !found {
		return netip.Prefix{}, false
	}
	var octets [4]byte
	labels, bits := strings.Split(below, "."), 0
	for i := len(labels) - 1; i >= 0 && bits < 32; i-- {
		octet, err := strconv.ParseUint(labels[i], 10, 8)
		if err != nil {
			break // as in _dns-sd._udp.2.1.10.in-addr.arpa
		}
		octets[bits/8] = byte(octet)
		bits += 8
	}
	return netip.PrefixFrom(netip.AddrFrom4(octets), bits), bits > 0
}

// isPrivateReverse6 reports whether a name is in the reverse zone of fc00::/7 or fe80::/10.
func isPrivateReverse6(name string) bool {
	for _, zone := range []string{"c.f", "d.f", "8.e.f", "9.e.f", "a.e.f", "b.e.f"} {
		if name == zone+".ip6.arpa" || strings.HasSuffix(name, "."+zone+".ip6.arpa") {
			return true
		}
	}
	return false
}
