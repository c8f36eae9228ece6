package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/confine"
	"ramet.dev/native/link/internal/credentials"
	"ramet.dev/native/link/internal/fault"
	"ramet.dev/native/link/internal/netns"
	"ramet.dev/native/link/internal/policy"
)

// netConfig is the first line that link reads (docs/architecture.md, Cell ↔ link).
type netConfig struct {
	V      int    `json:"v"`
	Socket string `json:"socket"`
	Ports  []struct {
		ContainerPort uint16 `json:"containerPort"`
	} `json:"ports"`
	Listen string      `json:"listen"`
	Egress policy.Spec `json:"egress"`
	DNS    struct {
		Upstreams []string `json:"upstreams"`
		// ClusterDomain is the cluster's DNS domain, if it is not cluster.local.
		ClusterDomain string `json:"clusterDomain"`
	} `json:"dns"`
	// Refuse holds the ranges of the cluster: denied unless a rule of the policy names an address or range inside them.
	Refuse []string `json:"refuse"`
}

type request struct {
	ID     int64           `json:"id"`
	Op     string          `json:"op"`
	Open   bool            `json:"open"`
	Policy json.RawMessage `json:"policy"`
	// Credentials are never written anywhere.
	Credentials json.RawMessage `json:"credentials"`
}

// credentialsRequest is what link adds to requests, and the proxy through which connections leave.
type credentialsRequest struct {
	credentials.Spec
	Proxy *proxySpec `json:"proxy"`
}

// maxLineBytes limits one line of the parent: enough for a body of the cell, at most 1 MiB, and all public CAs. Link ends at a
// longer one.
const maxLineBytes = 4 << 20

// A session is one run of `ramet-link net`.
type session struct {
	pair    *netns.Pair
	gate    *gate
	ingress *ingress
	egress  *egress
	out     struct {
		sync.Mutex
		io.Writer
	}
}

// serveNet runs until its input ends. The process then exits, and its namespaces end with it.
func serveNet(in io.Reader, out io.Writer) int {
	limitMemory()
	// Credentials must not get into a core file of the node. With a limit of 0, the kernel would still start a program of
	// core_pattern. A hard limit of 0, which cannot be raised, is left as it is.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	// The parent stops link by closing its input. Ctrl-C in a terminal signals the whole group, and the parent handles it.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	s := &session{gate: newGate()}
	s.out.Writer = out
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4096), maxLineBytes)
	// The namespaces do not depend on the configuration, so they are created before it is read.
	pair, made := netns.NewPair()
	if made == nil {
		s.send(map[string]string{"event": "made", "netns": pair.Sandbox.Path()})
	}
	if !lines.Scan() {
		return 0
	}
	socket, err := s.start(lines.Bytes(), pair, made)
	if err != nil {
		f := fault.From(err)
		s.send(map[string]string{"event": "error", "code": f.Code, "message": f.Message, "hint": f.Hint})
		return 1
	}
	defer func() { _ = os.Remove(socket) }()
	s.send(map[string]string{"event": "ready"})
	for lines.Scan() {
		s.answer(lines.Bytes())
	}
	s.egress.refused.end(time.Second)
	return 0
}

// memoryLimitBytes is what the collector keeps the heap below.
const memoryLimitBytes = 128 << 20

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimitBytes)
	}
}

// start sets up the network in the namespaces, or returns the error of creating them.
func (s *session) start(line []byte, pair *netns.Pair, made error) (socket string, err error) {
	var config netConfig
	if err := strict(line, &config); err != nil {
		return "", fault.New("InvalidArgument", "", "Reading link's configuration failed: %v", err)
	}
	if config.V != 1 {
		return "", fault.New("InvalidArgument", "Use a ramet-link of the same release", "Reading link's configuration failed: version %d is not 1", config.V)
	}
	// Errors in the configuration are reported first.
	s.egress, err = newEgress(s.gate, config)
	if err != nil {
		return "", err
	}
	if made != nil {
		return "", made
	}
	s.pair = pair
	if err := s.egress.serve(s.pair); err != nil {
		return "", err
	}
	s.ingress = newIngress(s.pair, s.gate)
	if err := s.listen(config); err != nil {
		return "", err
	}
	s.gate.onChange(func(open bool) error {
		if !open {
			s.ingress.cutClients()
			s.egress.cutAll()
		}
		return nil
	})
	if err := s.ingress.serveSocket(config.Socket); err != nil {
		return "", err
	}
	// The gate is closed until here, so no input of a sandbox or client has been parsed with more rights.
	return config.Socket, confine.Process()
}

func (s *session) listen(config netConfig) error {
	if config.Listen == "" {
		return nil
	}
	at, err := netip.ParseAddr(config.Listen)
	if err != nil {
		return fault.New("InvalidArgument", "", "Listening for the declared ports failed: listen is not an IP address: %q", config.Listen)
	}
	for _, port := range config.Ports {
		if err := s.ingress.listenPort(netip.AddrPortFrom(at, port.ContainerPort)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) answer(line []byte) {
	var r request
	if err := strict(line, &r); err != nil {
		s.send(answer{ID: &r.ID, Error: fault.New("InvalidArgument", "", "Reading a request failed: %v", err)})
		return
	}
	if r.Op == "report" {
		s.send(answer{ID: &r.ID, OK: true, Report: s.egress.report()})
		return
	}
	if r.Op == "credentials" {
		s.send(s.setCredentials(r))
		return
	}
	if err := s.perform(r); err != nil {
		s.send(answer{ID: &r.ID, Error: fault.From(err)})
		return
	}
	s.send(answer{ID: &r.ID, OK: true})
}

func (s *session) perform(r request) error {
	switch r.Op {
	case "prepare":
		return s.pair.Prepare()
	case "gate":
		return s.gate.set(r.Open)
	case "egress":
		var spec policy.Spec
		if err := strict(r.Policy, &spec); err != nil {
			return fault.New("InvalidArgument", "", "Reading the egress policy failed: %v", err)
		}
		return s.egress.setPolicy(spec)
	}
	return fault.New("InvalidArgument", "", "Reading a request failed: unknown operation %q", r.Op)
}

func (s *session) setCredentials(r request) answer {
	var given credentialsRequest
	if err := strict(r.Credentials, &given); err != nil {
		// Errors of the decoder can quote what they read.
		return answer{ID: &r.ID, Error: fault.New("InvalidArgument", "", "Reading the credentials failed: the request is not valid")}
	}
	certificate, err := s.egress.setCredentials(given.Spec, given.Proxy)
	if err != nil {
		return answer{ID: &r.ID, Error: fault.From(err)}
	}
	return answer{ID: &r.ID, OK: true, Certificate: certificate}
}

func (s *session) send(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		return
	}
	s.out.Lock()
	defer s.out.Unlock()
	_, _ = s.out.Write(append(line, '\n'))
}

func strict(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
