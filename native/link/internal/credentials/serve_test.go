package credentials

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// One connection of HTTP/2 has many requests, and a destination without HTTP/2 needs a connection for each.
func TestRequestsOnOneConnectionAreLimited(t *testing.T) {
	const limit, more = 3, 4
	answered := make(chan struct{})
	client, dialed := open(t, limit, func(http.ResponseWriter, *http.Request) { <-answered })
	statuses := make(chan int, limit+more)
	for range limit + more {
		go func() {
			answer, err := client.Get("https://example.com/")
			if err != nil {
				statuses <- 0
				return
			}
			_ = answer.Body.Close()
			statuses <- answer.StatusCode
		}()
	}
	for range more {
		if status := <-statuses; status != http.StatusServiceUnavailable {
			t.Errorf("a request above the limit got %d", status)
		}
	}
	close(answered)
	for range limit {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a request got %d", status)
		}
	}
	if dialed.Load() > limit {
		t.Errorf("%d connections for %d requests", dialed.Load(), limit)
	}
}

// With the credentials, such headers would have the weight of the domain's own proxies.
func TestClaimsOfAClientAreRemoved(t *testing.T) {
	received := make(chan http.Header, 1)
	client, _ := open(t, 1, func(_ http.ResponseWriter, r *http.Request) { received <- r.Header })
	request, err := http.NewRequest(http.MethodGet, "https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	removed := []string{"X-Real-IP", "X-Original-URL", "X-Forwarded-Prefix", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded"}
	for _, field := range removed {
		request.Header.Set(field, "TRACE")
	}
	request.Header.Set("X-Own", "kept")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	header := <-received
	for _, field := range removed {
		if header.Get(field) != "" {
			t.Errorf("%s was sent with the credentials", field)
		}
	}
	request.Header.Set("X-HTTP-Method-Override", "DELETE")
	if answer, err = client.Do(request); err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("another method got %d", answer.StatusCode)
	}
	if header.Get("X-Own") != "kept" || header.Get("X-Key") != "value" {
		t.Errorf("got %v", header)
	}
}

// open returns a client in a sandbox whose requests to example.com get credentials, and the number of connections to it.
func open(t *testing.T, limit int, handler http.HandlerFunc) (*http.Client, *atomic.Int32) {
	t.Helper()
	upstream := httptest.NewUnstartedServer(handler)
	upstream.Config.ErrorLog = log.New(io.Discard, "", 0)
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})
	rules, err := New(Spec{
		Rules: []RuleSpec{{Domain: "example.com", Headers: map[string]string{"x-key": "value"}}},
		TLS:   &TLSSpec{Seed: base64.StdEncoding.EncodeToString(make([]byte, seedBytes)), Roots: string(roots)},
	})
	if err != nil {
		t.Fatal(err)
	}
	dialed := new(atomic.Int32)
	requests := make(chan struct{}, limit)
	inner := accepted(t, func(conn net.Conn) {
		connection := Connection{
			Inner: conn, Domain: "example.com", Port: 443, TLS: true,
			Dial: func(context.Context) (net.Conn, error) {
				dialed.Add(1)
				return net.Dial("tcp", upstream.Listener.Addr().String())
			},
			Current:  func() *Rules { return rules },
			Requests: requests,
		}
		connection.Serve()
	})
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(rules.Authority.Certificate()))
	client := &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", inner) },
		TLSClientConfig:   &tls.Config{RootCAs: trusted},
		ForceAttemptHTTP2: true,
	}}
	t.Cleanup(client.CloseIdleConnections)
	return client, dialed
}

func accepted(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}
