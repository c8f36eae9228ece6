package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A recorder is a server at every address that keeps what it receives as it came, and answers each connection once.
type recorder struct{ seen }

func (w *world) record(port int) *recorder {
	w.t.Helper()
	r := &recorder{}
	w.listen(port, r.keep)
	return r
}

// keep reads until nothing comes for a moment, so that what follows the first request is seen too.
func (r *recorder) keep(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var all []byte
	for buffer := make([]byte, 4096); ; {
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := conn.Read(buffer)
		if all = append(all, buffer[:n]...); err != nil {
			break
		}
	}
	r.add(string(all))
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

func withUpstream(t *testing.T) *world {
	t.Helper()
	start, upstream := resolver(t, namesOfTest)
	w := newWorld(t, map[string]any{"dns": map[string]any{"upstreams": []string{upstream}}})
	start(w)
	w.do("gate", map[string]any{"open": true})
	return w
}

// requestLine is what a lenient server could take for the start of a request.
var requestLine = regexp.MustCompile(`(?m)^\s*[A-Za-z]+ \S+ HTTP/1\.\d`)

func TestCredentialsGoWithOneWellFormedRequest(t *testing.T) {
	w := withUpstream(t)
	upstream := w.record(80)
	w.credentials(map[string]any{"rules": rulesFor("api.example.org")})
	const host, second = "Host: api.example.org\r\nConnection: close\r\n", "GET /second HTTP/1.1\r\nHost: other.example.org\r\n\r\n"
	for what, text := range map[string]string{
		"two lengths":                    "POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + second,
		"a list of lengths":              "POST / HTTP/1.1\r\n" + host + "Content-Length: 0, 5\r\n\r\n" + second,
		"a length with a sign":           "POST / HTTP/1.1\r\n" + host + "Content-Length: +3\r\n\r\n" + second,
		"a negative length":              "POST / HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\n" + second,
		"a length and chunks":            "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
		"unknown encoding":               "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second,
		"two encodings":                  "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second,
		"an encoding with a tab":         "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + second,
		"an encoding after a space":      "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + second,
		"a folded encoding":              "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + second,
		"a folded header":                "GET / HTTP/1.1\r\n" + host + "X-A: b\r\n GET /second HTTP/1.1\r\n\r\n",
		"bare line feeds":                "GET / HTTP/1.1\n" + strings.ReplaceAll(host, "\r", "") + "\n" + second,
		"a bare carriage return":         "GET / HTTP/1.1\r\n" + host + "X-A: b\rGET /second HTTP/1.1\r\n\r\n",
		"a line feed in the target":      "GET /\nGET /second HTTP/1.1\r\n" + host + "\r\n",
		"an encoded line feed":           "GET /%0d%0aGET%20/second%20HTTP/1.1 HTTP/1.1\r\n" + host + "\r\n",
		"a NUL in a header":              "GET / HTTP/1.1\r\n" + host + "X-A: b\x00c\r\n\r\n",
		"a chunk with an extension":      "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0;\nx\r\n\r\n" + second,
		"a chunk with a huge size":       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n\r\n" + second,
		"a body of GET":                  "GET / HTTP/1.1\r\n" + host + "Content-Length: 60\r\n\r\n" + second,
		"an upgrade to clear HTTP/2":     "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + second,
		"two upgrades":                   "GET / HTTP/1.1\r\n" + host + "Connection: upgrade\r\nUpgrade: websocket, tcp\r\n\r\n" + second,
		"HTTP/0.9":                       "GET /\r\n" + host + "\r\n",
		"HTTP/2 with prior knowledge":    "PRI * HTTP/2.0\r\n" + host + "\r\nSM\r\n\r\n",
		"a target of another scheme":     "GET ftp://api.example.org/ HTTP/1.1\r\n" + host + "\r\n",
		"an absolute target":             "GET http://other.example.org/ HTTP/1.1\r\n" + host + "\r\n",
		"an absolute target with a user": "GET http://api.example.org@other.example.org/ HTTP/1.1\r\n" + host + "\r\n",
		"a trace in small letters":       "trace / HTTP/1.1\r\n" + host + "\r\n",
		"two hosts":                      "GET / HTTP/1.1\r\n" + host + "Host: other.example.org\r\n\r\n",
		"a host after a space":           "GET / HTTP/1.1\r\n" + host + "Host : other.example.org\r\n\r\n",
		"a host with a user":             "GET / HTTP/1.1\r\nHost: x@api.example.org\r\n\r\n",
		"trailers":                       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n0\r\nAuthorization: mine\r\n\r\n",
	} {
		answer := w.call("203.0.113.5:80", text)
		for _, received := range upstream.take() {
			if strings.Contains(answer, "s3cr3t") {
				t.Errorf("%s: the sandbox sees the value: %q", what, answer)
			}
			if !strings.Contains(received, secretValue) {
				continue
			}
			head, body, _ := strings.Cut(received, "\r\n\r\n")
			if len(requestLine.FindAllString(head, -1)) != 1 || strings.Contains(head, "\nGET /second") || strings.Contains(strings.ToLower(received), "other.example.org") && body == "" {
				t.Errorf("%s: more than one request has the credentials: %q", what, received)
			}
			if strings.HasPrefix(head, "trace") || strings.Count(strings.ToLower(head), "\r\nhost:") != 1 || !strings.Contains(head, "\r\nHost: api.example.org\r\n") {
				t.Errorf("%s: %q", what, received)
			}
			lower := strings.ToLower(head)
			if strings.Contains(lower, "content-length") && strings.Contains(lower, "transfer-encoding") || strings.Contains(lower, "upgrade:") {
				t.Errorf("%s: an ambiguous request has the credentials: %q", what, received)
			}
			if body != "" && !strings.Contains(lower, "content-length") && !strings.Contains(lower, "transfer-encoding") {
				t.Errorf("%s: bytes after the request with the credentials: %q", what, received)
			}
		}
	}
}

func TestCredentialsForHTTPSAreNotSentInClear(t *testing.T) {
	w, roots := credentialsWorld(t)
	seed := base64.StdEncoding.EncodeToString(make([]byte, 32))
	w.credentials(map[string]any{"rules": rulesFor("api.example.org", "deep.sub.wild.test:80"), "tls": map[string]any{"seed": seed, "roots": roots}})
	if got := w.call("203.0.113.5:80", get("/", "api.example.org")); !strings.Contains(got, "authorized=false") {
		t.Errorf("plain HTTP: %q", got)
	}
	if got := w.call("203.0.113.5:443", get("/", "api.example.org")); strings.Contains(got, "authorized=true") {
		t.Errorf("plain HTTP to the port of HTTPS: %q", got)
	}
	if got := w.call("203.0.113.5:80", get("/", "deep.sub.wild.test")); !strings.Contains(got, "authorized=true") {
		t.Errorf("plain HTTP to a port that the rule names: %q", got)
	}
}

// The values of a Secret can be as large as the cell accepts.
func TestLinkRefusesLargeCredentialsAndGoesOn(t *testing.T) {
	w := newWorld(t, nil)
	value := strings.Repeat("x", 1<<20)
	rules := []any{map[string]any{"domain": "a.test", "headers": map[string]string{"x": value, "y": value}}}
	answer := w.exchange(map[string]any{"id": 1, "op": "credentials", "credentials": map[string]any{"rules": rules}})
	if answer["error"] == nil {
		t.Error("a value of 1 MiB was accepted")
	}
	w.do("gate", map[string]any{"open": true})
}

// The sandbox follows redirects and keeps connections; link sends the credentials to the domain alone.
func TestCredentialsFollowNoRedirectAndNoRebinding(t *testing.T) {
	targets := []string{metadata, "127.0.0.1", ofNode, private, "169.254.17.1"}
	w, r := rebindingWorld(t, func(name string) script {
		if at, found := strings.CutPrefix(name, "turns-"); found {
			at, _, _ = strings.Cut(at, ".")
			return inTurn([]string{publicAddress}, []string{targets[at[0]-'0']})
		}
		return inTurn([]string{publicAddress})
	})
	w.listen(8080, func(conn net.Conn) { serveOnce(conn, http.HandlerFunc(authorized)) })
	w.listen(8000, func(conn net.Conn) {
		serveOnce(conn, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if to := q.URL.Query().Get("to"); to != "" {
				http.Redirect(w, q, to, http.StatusTemporaryRedirect)
				return
			}
			authorized(w, q)
		}))
	})
	domains := []string{"api.example.org:8000"}
	for i := range targets {
		domains = append(domains, fmt.Sprintf("turns-%d.example.org", i))
	}
	w.credentials(map[string]any{"rules": rulesFor(domains...)})
	client := http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, _, address string) (conn net.Conn, err error) {
		_, port, _ := net.SplitHostPort(address)
		w.inside(func() { conn, err = net.Dial("tcp4", publicAddress+":"+port) })
		return conn, err
	}}}
	for to, want := range map[string]string{
		"":                               "api.example.org:8000 / authorized=true",
		"http://other.example.org:8000/": "other.example.org:8000 / authorized=false",
		"http://api.example.org:8080/":   "api.example.org:8080 / authorized=false",
		"//sub.api.example.org:8000/":    "sub.api.example.org:8000 / authorized=false",
		"http://api.example.org@other.example.org:8000/": "other.example.org:8000 / authorized=false",
	} {
		response, err := client.Get("http://api.example.org:8000/?to=" + url.QueryEscape(to))
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		_ = response.Body.Close()
		if got := strings.ReplaceAll(string(body), "/?to= ", "/ "); !strings.Contains(got, want) {
			t.Errorf("redirected to %q: got %q, want %q", to, got, want)
		}
	}
	for i, target := range targets {
		name := fmt.Sprintf("turns-%d.example.org", i)
		w.call(publicAddress+":80", get("/", name))
		if all := r.take(); !slices.Equal(all, []string{publicAddress}) {
			t.Errorf("before %s: reached %v", target, all)
		}
		if got := w.call(publicAddress+":80", get("/", name)); got != "cut" || len(r.take()) > 0 {
			t.Errorf("rebound to %s: %q", target, got)
		}
	}
}

// serveOnce answers the requests of one connection.
func serveOnce(conn net.Conn, handler http.Handler) {
	listener := &oneListener{conn: make(chan net.Conn, 1)}
	listener.conn <- conn
	close(listener.conn)
	_ = http.Serve(listener, handler)
}

type oneListener struct{ conn chan net.Conn }

func (l *oneListener) Accept() (net.Conn, error) {
	if conn, open := <-l.conn; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }
