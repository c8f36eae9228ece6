package main

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
)

func TestAnnouncedName(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want string
		done bool
	}{
		"TLS":                      {clientHello(t, "A.example.org"), "a.example.org", true},
		"TLS without a name":       {clientHello(t, ""), "", true},
		"half of TLS":              {clientHello(t, "a.example.org")[:60], "", false},
		"HTTP":                     {"GET / HTTP/1.1\r\nUser-Agent: x\r\nHost: Example.org:80\r\n\r\n", "example.org", true},
		"HTTP, before its end":     {"GET / HTTP/1.1\r\nhost: example.org\r\n", "example.org", true},
		"HTTP, a name in halves":   {"GET / HTTP/1.1\r\nHost: exam", "", false},
		"HTTP without a host":      {"GET / HTTP/1.0\r\n\r\n", "", true},
		"a broken record":          {"\x16\x03\x01\x00\x04\x01\x00\x00\xff", "", true},
		"nothing":                  {"", "", false},
		"a host in a request line": {"GET http://evil.org/host: HTTP/1.1\r\nHost: example.org\r\n\r\n", "example.org", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, done := announcedName([]byte(c.data))
			if got != c.want || done != c.done {
				t.Errorf("got %q, %v; want %q, %v", got, done, c.want, c.done)
			}
		})
	}
}

// clientHello is what Go's TLS client sends first.
func clientHello(t testing.TB, name string) string {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	var data strings.Builder
	header := make([]byte, 5)
	if _, err := io.ReadFull(server, header); err != nil {
		t.Fatal(err)
	}
	data.Write(header)
	if _, err := io.CopyN(&data, server, int64(header[3])<<8|int64(header[4])); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	return data.String()
}
