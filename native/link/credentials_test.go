package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const secretValue = "Bearer s3cr3t-of-the-test"

// authorized answers whether the request had the credentials, and what else identifies it. It never returns the value.
func authorized(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	has := len(r.Header["Authorization"]) == 1 && r.Header.Get("Authorization") == secretValue
	_, _ = fmt.Fprintf(w, "%s %s %s authorized=%t body=%s", r.Method, r.Host, r.RequestURI, has, body)
}

func namesOfTest(name string) []string {
	switch name {
	case "api.example.org", "deep.sub.wild.test", "other.example.org":
		return []string{"203.0.113.5"}
	case "rebind.example.org":
		return []string{"169.254.17.2"}
	case "loopback.example.org":
		return []string{"127.0.0.1"}
	}
	return nil
}

// credentialsWorld has an HTTP and an HTTPS server at every address, whose certificate link trusts.
func credentialsWorld(t *testing.T) (w *world, roots string) {
	t.Helper()
	start, upstream := resolver(t, namesOfTest)
	w = newWorld(t, map[string]any{"dns": map[string]any{"upstreams": []string{upstream}}})
	start(w)
	certificate, roots := selfSigned(t, "api.example.org")
	listen := func(port int) (l net.Listener) {
		var err error
		w.space.Do(func() { l, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port)) })
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	handler := http.HandlerFunc(authorized)
	for _, port := range []int{80, 8080} {
		listener := listen(port)
		go func() { _ = http.Serve(listener, handler) }()
	}
	secure := &http.Server{
		Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	listener := listen(443)
	go func() { _ = secure.ServeTLS(listener, "", "") }()
	w.do("gate", map[string]any{"open": true})
	return w, roots
}

func selfSigned(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func rulesFor(domains ...string) []any {
	rules := []any{}
	for _, domain := range domains {
		rules = append(rules, map[string]any{"domain": domain, "headers": map[string]string{"authorization": secretValue}})
	}
	return rules
}

func (w *world) credentials(given map[string]any) string {
	w.t.Helper()
	answer := w.exchange(map[string]any{"id": 1, "op": "credentials", "credentials": given})
	if answer["ok"] != true {
		w.t.Fatal(answer)
	}
	certificate, _ := answer["certificate"].(string)
	return certificate
}

func get(path, host string, more ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + strings.Join(more, "") + "\r\n"
}

func TestCredentialsOverHTTP(t *testing.T) {
	w, _ := credentialsWorld(t)
	w.credentials(map[string]any{"rules": rulesFor("api.example.org", "*.wild.test", "api.example.org:8080", "rebind.example.org", "loopback.example.org")})
	contains := func(what, got string, wanted ...string) {
		t.Helper()
		for _, want := range wanted {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
		if strings.Contains(got, "s3cr3t") {
			t.Errorf("%s: the sandbox sees the value: %q", what, got)
		}
	}
	const api = "203.0.113.5:80"
	contains("a request", w.call(api, get("/a%2Fb?x=1;y", "api.example.org")), "GET api.example.org /a%2Fb?x=1;y authorized=true")
	contains("a client that sets the header itself", w.call(api, get("/", "api.example.org", "Authorization: mine\r\naUTHORIZATION: other\r\n")), "authorized=true")
	contains("a client that has the header removed", w.call(api, get("/", "api.example.org", "Connection: authorization\r\n")), "authorized=true")
	contains("a name below a wildcard", w.call(api, get("/", "deep.sub.wild.test")), "authorized=true")
	contains("a body", w.call(api, "POST / HTTP/1.1\r\nHost: api.example.org\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"), "body=body")
	contains("another port of a rule", w.call("203.0.113.5:8080", get("/", "api.example.org:8080")), "GET api.example.org:8080 / authorized=true")
	contains("a name without a rule", w.call(api, get("/", "other.example.org")), "GET other.example.org / authorized=false")

	// The sandbox decides which address it connects to, and link decides where the credentials go.
	contains("another address", w.call("203.0.113.66:80", get("/", "api.example.org")), "authorized=true")
	if got := w.call("203.0.113.66:80", get("/", "rebind.example.org")); got != "cut" {
		t.Errorf("a name that points to the sandbox: %q", got)
	}
	if got := w.call("203.0.113.66:80", get("/", "loopback.example.org")); got != "cut" {
		t.Errorf("a name that points to loopback: %q", got)
	}

	contains("TRACE", w.call(api, strings.Replace(get("/", "api.example.org"), "GET", "TRACE", 1)), "405")
	contains("CONNECT", w.call(api, "CONNECT api.example.org:80 HTTP/1.1\r\nHost: api.example.org:80\r\n\r\n"), "405")
	contains("another host in an absolute target", w.call(api, get("http://other.example.org/", "api.example.org")), "421")
	contains("another port in the host", w.call(api, get("/", "api.example.org:81")), "421")
	contains("two hosts", w.call(api, get("/", "api.example.org", "Host: other.example.org\r\n")), "400")
	contains("no HTTP", w.call(api, "nonsense\r\nHost: api.example.org\r\n\r\n"), "400")

	// Pipelined requests are separate requests: the second one is refused for its own host.
	pipelined := "GET /1 HTTP/1.1\r\nHost: api.example.org\r\n\r\n" + get("/2", "other.example.org")
	contains("pipelined", w.call(api, pipelined), "/1 authorized=true", "421")
	smuggled := "POST /1 HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("/2", "other.example.org")
	answer := w.call(api, smuggled)
	contains("both lengths", answer)
	if strings.Contains(answer, "/2 authorized=true") || strings.Contains(answer, "other.example.org / authorized=true") {
		t.Errorf("a smuggled request got the credentials: %q", answer)
	}

	w.egress("deny", "other.example.org")
	if got := w.call(api, get("/", "api.example.org")); got != "cut" {
		t.Errorf("a rule for credentials opened a denied name: %q", got)
	}
	w.egress("allow")
	w.credentials(map[string]any{"rules": []any{}})
	contains("after the rules were removed", w.call(api, get("/", "api.example.org")), "authorized=false")
}

func TestCredentialsOverTLS(t *testing.T) {
	w, roots := credentialsWorld(t)
	seed := base64.StdEncoding.EncodeToString(make([]byte, 32))
	given := map[string]any{"rules": rulesFor("api.example.org"), "tls": map[string]any{"seed": seed, "roots": roots}}
	certificate := w.credentials(given)
	if again := w.credentials(given); again != certificate || certificate == "" {
		t.Fatal("link has no CA, or another one each time")
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(certificate))
	request := func(name, host string, pool *x509.CertPool, protocols ...string) (answer string) {
		w.inside(func() {
			conn, err := tls.Dial("tcp4", "203.0.113.5:443", &tls.Config{RootCAs: pool, ServerName: name, NextProtos: protocols})
			if err != nil {
				answer = err.Error()
				return
			}
			defer func() { _ = conn.Close() }()
			if conn.ConnectionState().NegotiatedProtocol == "h2" {
				answer = "h2"
				return
			}
			_, _ = io.WriteString(conn, get("/", host))
			data, _ := io.ReadAll(conn)
			answer = string(data)
		})
		return answer
	}
	if got := request("api.example.org", "api.example.org", trusted); !strings.Contains(got, "authorized=true") {
		t.Errorf("a request: %q", got)
	}
	if got := request("api.example.org", "other.example.org", trusted); !strings.Contains(got, "421") {
		t.Errorf("another host than in the server name: %q", got)
	}
	if got := request("api.example.org", "api.example.org", trusted, "h2", "http/1.1"); got != "h2" {
		t.Errorf("HTTP/2: %q", got)
	}
	own := x509.NewCertPool()
	own.AppendCertsFromPEM([]byte(roots))
	if got := request("other.example.org", "other.example.org", trusted); !strings.Contains(got, "certificate") {
		t.Errorf("a name without a rule is intercepted: %q", got)
	}
	// Another certificate of the destination: link trusts only the given roots.
	_, others := selfSigned(t, "api.example.org")
	w.credentials(map[string]any{"rules": rulesFor("api.example.org"), "tls": map[string]any{"seed": seed, "roots": others}})
	if got := request("api.example.org", "api.example.org", trusted); !strings.Contains(got, "502") || strings.Contains(got, "authorized") {
		t.Errorf("a destination that is not trusted: %q", got)
	}
	// Without a CA, TLS passes untouched.
	w.credentials(map[string]any{"rules": rulesFor("api.example.org")})
	if got := request("api.example.org", "api.example.org", own); !strings.Contains(got, "authorized=false") {
		t.Errorf("TLS without a CA: %q", got)
	}
}

func TestCredentialsAreValidated(t *testing.T) {
	w := newWorld(t, nil)
	header := func(name, value string) []any {
		return []any{map[string]any{"domain": "a.test", "headers": map[string]string{name: value}}}
	}
	for what, given := range map[string]map[string]any{
		"a header of the connection": {"rules": header("Transfer-Encoding", "s3cr3t")},
		"a name with a space":        {"rules": header("a b", "s3cr3t")},
		"a second header":            {"rules": header("a", "s3cr3t\r\nb: c")},
		"an address":                 {"rules": rulesFor("203.0.113.5")},
		"everything":                 {"rules": rulesFor("*")},
		"a seed that is too short":   {"rules": rulesFor("a.test"), "tls": map[string]any{"seed": "czNjcjN0"}},
		"an unknown field":           {"rules": rulesFor("a.test"), "s3cr3t": "s3cr3t"},
		"another type":               {"rules": "s3cr3t"},
		"a proxy without a port":     {"rules": rulesFor(), "proxy": map[string]any{"address": "a", "password": "s3cr3t"}},
	} {
		answer := w.exchange(map[string]any{"id": 1, "op": "credentials", "credentials": given})
		if text := fmt.Sprint(answer); answer["error"] == nil || strings.Contains(text, "s3cr3t") {
			t.Errorf("%s: %v", what, text)
		}
	}
}
