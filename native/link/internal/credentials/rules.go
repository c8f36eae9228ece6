// Package credentials adds headers to the requests that a sandbox sends to certain domains, so that the sandbox itself never
// has the values.
package credentials

import (
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ramet.dev/native/link/internal/fault"
)

// A Spec is what the cell sends. It is kept in memory only.
type Spec struct {
	Rules []RuleSpec `json:"rules"`
	// TLS is set if link terminates TLS connections to the domains of the rules.
	TLS *TLSSpec `json:"tls"`
}

// A RuleSpec names a domain, or the domains below it (*.domain), with an optional port.
type RuleSpec struct {
	Domain  string            `json:"domain"`
	Headers map[string]string `json:"headers"`
}

// A TLSSpec has the seed of the CA, which all sandboxes of a namespace share: a clone trusts what its source trusted.
type TLSSpec struct {
	Seed string `json:"seed"`
	// Roots are the certificates that link trusts at destinations, in PEM.
	Roots string `json:"roots"`
}

// Rules are parsed and immutable.
type Rules struct {
	rules []rule
	// Authority is nil if TLS connections pass untouched.
	Authority *Authority
}

type rule struct {
	name    string
	below   bool
	port    uint16 // 0: 80 and 443
	headers http.Header
}

const (
	maxRules       = 128
	maxHeaders     = 32
	maxHeaderBytes = 16 << 10
)

// New parses a spec. Errors name the rule and never a value.
func New(spec Spec) (*Rules, error) {
	if len(spec.Rules) > maxRules {
		return nil, wrong("%d rules, and at most %d are supported", len(spec.Rules), maxRules)
	}
	rules := &Rules{}
	for i, each := range spec.Rules {
		parsed, err := parseRule(i, each)
		if err != nil {
			return nil, err
		}
		rules.rules = append(rules.rules, parsed)
	}
	if spec.TLS == nil {
		return rules, nil
	}
	seed, err := base64.StdEncoding.DecodeString(spec.TLS.Seed)
	if err != nil {
		return nil, wrong("the seed of the CA is not base64")
	}
	rules.Authority, err = newAuthority(seed, spec.TLS.Roots)
	return rules, err
}

func parseRule(at int, spec RuleSpec) (rule, error) {
	r := rule{headers: http.Header{}}
	name, portText, hasPort := strings.Cut(spec.Domain, ":")
	if hasPort {
		port, err := strconv.ParseUint(portText, 10, 16)
		if err != nil || port == 0 {
			return r, wrong("rules[%d].domain has a port that is not from 1 to 65535", at)
		}
		r.port = uint16(port)
	}
	r.name, r.below = strings.CutPrefix(normalName(name), "*.")
	if !isDomain(r.name) {
		return r, wrong("rules[%d].domain is not a name or *.name", at)
	}
	if len(spec.Headers) > maxHeaders {
		return r, wrong("rules[%d] has more than %d headers", at, maxHeaders)
	}
	for field, value := range spec.Headers {
		if !isFieldName(field) || isOfConnection(field) {
			return r, wrong("rules[%d].headers has a name that cannot be set", at)
		}
		if !isFieldValue(value) || len(value) > maxHeaderBytes {
			return r, wrong("the value of rules[%d].headers[%s] is not a value of a header", at, field)
		}
		r.headers.Set(field, value)
	}
	return r, nil
}

// isOfConnection reports whether a header belongs to the connection or frames the message.
func isOfConnection(field string) bool {
	return slices.Contains([]string{
		"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade",
	}, http.CanonicalHeaderKey(field))
}

// isFieldName reports whether a text is a token (RFC 9110, 5.6.2).
func isFieldName(text string) bool {
	for _, c := range []byte(text) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return text != ""
}

// isFieldValue refuses control characters, which could end the header (RFC 9110, 5.5).
func isFieldValue(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isDomain is stricter than DNS: an address cannot have a rule, because only a name is resolved by link.
func isDomain(name string) bool {
	if name == "" || len(name) > 253 || net.ParseIP(name) != nil {
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
	return letters
}

// Concerns reports whether a rule can apply to connections to that port.
func (r *Rules) Concerns(port uint16) bool {
	return r != nil && slices.ContainsFunc(r.rules, func(each rule) bool { return each.concerns(port) })
}

// Headers returns the headers for a domain and port; nil if no rule matches. An exact name beats a longer suffix, and a longer
// suffix a shorter one; the headers of two rules are not merged. With a CA, a rule is for plain HTTP only if it names the port:
// the sandbox must not be able to have a value sent where the network can read it.
func (r *Rules) Headers(domain string, port uint16, isTLS bool) http.Header {
	if r == nil {
		return nil
	}
	var best *rule
	for i := range r.rules {
		each := &r.rules[i]
		if !isTLS && r.Authority != nil && each.port == 0 {
			continue
		}
		if each.concerns(port) && each.matches(normalName(domain)) && (best == nil || each.beats(best)) {
			best = each
		}
	}
	if best == nil {
		return nil
	}
	return best.headers
}

func (r *rule) concerns(port uint16) bool {
	return r.port == port || r.port == 0 && (port == 80 || port == 443)
}

func (r *rule) matches(name string) bool {
	if r.below {
		return strings.HasSuffix(name, "."+r.name)
	}
	return name == r.name
}

func (r *rule) beats(other *rule) bool {
	if r.below != other.below {
		return other.below
	}
	if len(r.name) != len(other.name) {
		return len(r.name) > len(other.name)
	}
	return r.port != 0 && other.port == 0
}

func normalName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

func wrong(format string, values ...any) error {
	return fault.New("InvalidArgument", "", "Reading the credentials failed: "+format, values...)
}
