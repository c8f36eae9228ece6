package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"ramet.dev/native/internal/fuzzcheck"
	"ramet.dev/native/link/internal/fault"
)

// The name must be the one that an ordinary server reads, or else a rule decides about another host than the one that answers.
func FuzzAnnouncedName(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\nAccept: */*\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01\x00\x04\x01\x00\x00\xff"))
	f.Add([]byte(clientHello(f, "a.example.org")))
	f.Add([]byte(clientHello(f, "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzcheck.Input(t, func() {
			name, done := announcedName(data)
			if !done && name != "" {
				t.Errorf("named %q before it was done", name)
			}
			if len(data) > 0 && data[0] == tlsHandshake {
				if server, ok := namedToTLS(data); ok && done && name != server {
					t.Errorf("named %q, and a TLS server reads %q", name, server)
				}
				return
			}
			if server, ok := namedToHTTP(data); ok && done && name != server {
				t.Errorf("named %q, and an HTTP server reads %q", name, server)
			}
		})
	})
}

var errSeen = errors.New("seen")

// namedToTLS returns the name that Go's TLS server reads from a whole ClientHello in one record.
func namedToTLS(data []byte) (name string, ok bool) {
	config := tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = hello.ServerName, true
		return nil, errSeen
	}}
	_ = tls.Server(recorded{bytes.NewReader(data)}, &config).Handshake()
	return strings.TrimSuffix(strings.ToLower(name), "."), ok
}

// namedToHTTP returns the host that Go's HTTP server reads. It ignores an absolute target, which ordinary clients send only to proxies.
func namedToHTTP(data []byte) (string, bool) {
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
	if err != nil || request.URL.Host != "" || request.Host == "" {
		return "", false
	}
	host := request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), true
}

// recorded is a connection that sends these bytes and swallows every answer.
type recorded struct{ io.Reader }

func (recorded) Write(data []byte) (int, error)   { return len(data), nil }
func (recorded) Close() error                     { return nil }
func (recorded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (recorded) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (recorded) SetDeadline(time.Time) error      { return nil }
func (recorded) SetReadDeadline(time.Time) error  { return nil }
func (recorded) SetWriteDeadline(time.Time) error { return nil }

func FuzzIngressHeader(f *testing.F) {
	for _, seed := range []string{
		"{\"port\":80}\nGET /", "{\"port\":49982,\"control\":true}\n", "{\"port\":49982}\n", "{\"port\":0}\n", "{\"port\":70000}\n", "\n", "null\n",
		"{\"PORT\":49982,\"port\":1}\n", "{\"port\":80", "[]\n", strings.Repeat(" ", maxHeaderBytes) + "{\"port\":80}\n",
	} {
		f.Add([]byte(seed))
	}
	g := newGate()
	if err := g.set(true); err != nil {
		f.Fatal(err)
	}
	in := newIngress(nil, g)
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzcheck.Input(t, func() {
			reader := bufio.NewReaderSize(bytes.NewReader(data), maxHeaderBytes)
			header, fault := readHeader(reader)
			if fault != nil {
				if fault.Code != "InvalidArgument" {
					t.Errorf("the code is %q", fault.Code)
				}
				return
			}
			if header.Port == 0 {
				t.Error("port 0 was taken")
			}
			if !header.Control && header.Port == controlPort && in.permitted(header) == nil {
				t.Error("a client may connect to the control port")
			}
			_, early, _ := bytes.Cut(data, []byte("\n"))
			if rest, _ := io.ReadAll(reader); !bytes.Equal(rest, early) {
				t.Errorf("%q is left for the sandbox, not %q", rest, early)
			}
		})
	})
}

func FuzzConfigurationLine(f *testing.F) {
	f.Add([]byte(`{"v":1,"socket":"/s","ports":[{"containerPort":80}],"listen":"10.0.0.1","egress":{"default":"deny","allow":["*.a.example:443"]}}`))
	f.Add([]byte(`{"v":1,"egress":{"narrowedBy":[{"deny":["10.0.0.0/8"]}]},"dns":{"upstreams":["[::1]:53","1.1.1.1"],"clusterDomain":"k8s.example"},"refuse":["10.96.0.0/12"]}`))
	f.Add([]byte(`{"v":1,"egress":{"allow":["a..b"]},"refuse":["::/0"]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		fuzzcheck.Input(t, func() {
			var config netConfig
			if strict(line, &config) != nil {
				return
			}
			// As newEgress, without what it starts.
			e := egress{refuse: config.Refuse, domains: []string{config.DNS.ClusterDomain}}
			checkFault(t, e.setPolicy(config.Egress))
		})
	})
}

func FuzzRequestLine(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"op":"gate","open":true}`, `{"id":2,"op":"egress","policy":{"default":"deny","allow":["example.org:443"],"deny":[]}}`,
		`{"id":3,"op":"egress"}`, `{"id":4,"op":"?"}`, `{"id":-1}`, `{"id":1,"extra":1}`, `null`, `{"id":5,"op":"egress","policy":null}`,
		`{"id":6,"op":"credentials","credentials":{"rules":[{"domain":"*.a.example:8443","headers":{"x":"y"}}],"proxy":{"address":"a:1"}}}`,
		`{"id":7,"op":"credentials","credentials":{"tls":{"seed":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","roots":""}}}`,
	} {
		f.Add([]byte(seed))
	}
	var out bytes.Buffer
	s := &session{gate: newGate(), egress: &egress{}}
	s.out.Writer = &out
	f.Fuzz(func(t *testing.T, line []byte) {
		var parsed request
		if strict(line, &parsed) == nil && parsed.Op == "prepare" {
			return // it changes namespaces
		}
		fuzzcheck.Input(t, func() {
			out.Reset()
			s.answer(line)
			var got answer
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
				t.Fatalf("the answer is %q: %v", out.String(), err)
			}
			if got.ID == nil || got.OK == (got.Error != nil) {
				t.Errorf("the answer is %q", out.String())
			}
			if got.Error != nil {
				checkFault(t, got.Error)
			}
		})
	})
}

// checkFault fails if an error has no code, or the code of a defect.
func checkFault(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if f := fault.From(err); f.Code != "InvalidArgument" || f.Message == "" {
		t.Errorf("the error is %+v", f)
	}
}
