package credentials

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Connection is one connection of the sandbox to a domain that has a rule.
type Connection struct {
	// Inner is the sandbox's side, whose first bytes were not read yet.
	Inner net.Conn
	// Domain is the name that the client announced, and that link has resolved.
	Domain string
	Port   uint16
	TLS    bool
	// Dial connects to the domain's address. A client can have many requests at the same time, each with its own connection.
	Dial func(ctx context.Context) (net.Conn, error)
	// Current returns the rules in effect.
	Current func() *Rules
	// Requests limits the requests of all connections of the sandbox that are not answered yet.
	Requests chan struct{}
}

const (
	headerTimeout    = 30 * time.Second
	idleTimeout      = 5 * time.Minute
	handshakeTimeout = 10 * time.Second
	maxRequestHeader = 64 << 10
	// What a destination may send that the sandbox does not read.
	maxAnswerHeader        = 256 << 10
	maxUnreadOfRequest     = 1 << 20
	maxUnreadOfConnection  = 4 << 20
	maxRequestsOfOneClient = 100
)

// Serve answers the requests of a connection until it ends. Each request is parsed and written again, so nothing of a request can
// be taken for another one. It returns when both sides are closed.
func (c *Connection) Serve() {
	authority := c.Current().authority()
	if c.TLS && authority == nil {
		_ = c.Inner.Close()
		return
	}
	transport := c.transport(authority)
	defer transport.CloseIdleConnections()
	server := &http.Server{
		Handler:           c.handler(transport),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxRequestHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxRequestsOfOneClient},
		// Its lines quote requests.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	only := newOnlyListener(c.Inner)
	if c.TLS {
		server.TLSConfig = authority.forName(c.Domain)
		_ = server.ServeTLS(only, "", "")
	} else {
		_ = server.Serve(only)
	}
}

func (r *Rules) authority() *Authority {
	if r == nil {
		return nil
	}
	return r.Authority
}

// transport connects to the domain only, whatever a request says.
func (c *Connection) transport(authority *Authority) *http.Transport {
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
		TLSHandshakeTimeout: handshakeTimeout,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,

		MaxResponseHeaderBytes: maxAnswerHeader,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     maxUnreadOfRequest,
			MaxReceiveBufferPerConnection: maxUnreadOfConnection,
		},
	}
	if c.TLS {
		transport.TLSClientConfig = &tls.Config{ServerName: c.Domain, RootCAs: authority.roots, MinVersion: tls.VersionTLS12}
		transport.ForceAttemptHTTP2 = true
	}
	return transport
}

func (c *Connection) handler(transport http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		Rewrite:       c.rewrite,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, "The request to "+c.Domain+" failed: "+plainError(err))
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, why := c.refusal(r); status != 0 {
			w.Header().Set("Connection", "close")
			refuse(w, status, why)
			return
		}
		select {
		case c.Requests <- struct{}{}:
			defer func() { <-c.Requests }()
			proxy.ServeHTTP(w, r)
		default:
			refuse(w, http.StatusServiceUnavailable, "The sandbox has too many requests with credentials at the same time")
		}
	})
}

// refusal returns why a request is not sent to the domain.
func (c *Connection) refusal(r *http.Request) (status int, why string) {
	switch strings.ToUpper(r.Method) {
	case http.MethodConnect:
		return http.StatusMethodNotAllowed, "CONNECT is not supported on a connection with credentials"
	case http.MethodTrace, "TRACK", "DEBUG":
		return http.StatusMethodNotAllowed, "The answer to " + r.Method + " would contain the credentials"
	}
	for _, field := range overrides {
		if r.Header.Get(field) != "" {
			return http.StatusBadRequest, "The header " + field + " is not supported on a connection with credentials"
		}
	}
	host, port := r.Host, c.Port
	if name, text, err := net.SplitHostPort(r.Host); err == nil {
		number, _ := strconv.ParseUint(text, 10, 16)
		host, port = name, uint16(number)
	}
	if normalName(host) != c.Domain || port != c.Port {
		return http.StatusMisdirectedRequest, "The host of the request is not " + c.Domain + ", to which this connection was opened"
	}
	if c.headers() == nil {
		return http.StatusMisdirectedRequest, "The rule for " + c.Domain + " was removed: connect again"
	}
	return 0, ""
}

// rewrite sets the headers after those of the connection are removed, so that a client cannot have them removed.
func (c *Connection) rewrite(r *httputil.ProxyRequest) {
	scheme := "http"
	if c.TLS {
		scheme = "https"
	}
	host := c.Domain
	if c.Port != 80 && c.Port != 443 || c.Port == 443 && !c.TLS || c.Port == 80 && c.TLS {
		host = net.JoinHostPort(c.Domain, strconv.Itoa(int(c.Port)))
	}
	r.Out.URL = &url.URL{Scheme: scheme, Host: host, Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery, ForceQuery: r.In.URL.ForceQuery}
	r.Out.Host = host
	for field := range r.Out.Header {
		if strings.HasPrefix(field, "X-Forwarded-") || slices.Contains(claims, field) {
			delete(r.Out.Header, field)
		}
	}
	if r.Out.Header.Get("Upgrade") != "" && normalName(r.Out.Header.Get("Upgrade")) != "websocket" {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
	for field, values := range c.headers() {
		r.Out.Header[field] = values
	}
}

// overrides are headers with which a client requests another method than the one that was checked.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// claims are headers with which a client says that its request is for another path or from elsewhere. With the credentials they
// would have the weight of the domain's own proxies.
var claims = []string{"Forwarded", "X-Original-Url", "X-Rewrite-Url", "X-Real-Ip", "X-Client-Ip", "X-Host", "True-Client-Ip"}

func (c *Connection) headers() http.Header { return c.Current().Headers(c.Domain, c.Port, c.TLS) }

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, why+"\n")
}

// plainError is short and never quotes a header: errors of the transport about headers do.
func plainError(err error) string {
	switch e := err.(type) {
	case net.Error:
		if e.Timeout() {
			return "it took too long"
		}
	case *tls.CertificateVerificationError:
		return "its certificate is not trusted"
	}
	return "the connection could not be made, or it ended"
}

// An onlyListener accepts one connection, and ends when that is closed.
type onlyListener struct {
	address net.Addr
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newOnlyListener(conn net.Conn) *onlyListener {
	l := &onlyListener{address: conn.LocalAddr(), conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- &onlyConn{Conn: conn, closed: l.close}
	return l
}

func (l *onlyListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *onlyListener) close()         { l.once.Do(func() { close(l.closed) }) }
func (l *onlyListener) Close() error   { return nil }
func (l *onlyListener) Addr() net.Addr { return l.address }

type onlyConn struct {
	net.Conn
	closed func()
}

func (c *onlyConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
