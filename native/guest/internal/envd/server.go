// Package envd serves the API of E2B's envd: commands, files and watches, over Connect RPC and HTTP.
package envd

import (
	"encoding/json"
	"net/http"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/rpc"
)

// Version is the version of envd whose API is served, without what its orchestrator uses. Clients use or avoid parts of the API
// by it. src/api/wire/envd-version.ts has it for servers.
const Version = "0.6.13"

// Server serves clients on port 49983.
type Server struct {
	processes *process.Table
	identity  *identity.State
	watchers  *watchers
	cpu       *cpuMeter
}

// New returns a Server.
func New(processes *process.Table, identity *identity.State) *Server {
	return &Server{processes: processes, identity: identity, watchers: newWatchers(), cpu: newCPUMeter()}
}

// Handler returns the handler of the client port, which requires the sandbox's token.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /envs", s.envs)
	mux.HandleFunc("POST /init", s.init)
	mux.HandleFunc("GET /files", s.download)
	mux.HandleFunc("POST /files", s.upload)
	mux.HandleFunc("POST /files/compose", s.compose)
	s.processRoutes(mux)
	s.filesystemRoutes(mux)
	return s.guard(mux)
}

// guard rejects callers without the token. Health and init authorize callers themselves; /files also accepts a signature.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := r.URL.Path == "/health" || r.URL.Path == "/init" || r.URL.Path == "/files" && r.Header.Get("X-Access-Token") == ""
		if !open && !s.identity.Admits(r.Header.Get("X-Access-Token")) {
			fail(w, http.StatusUnauthorized, "the access token is missing or wrong: send it as X-Access-Token")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) envs(w http.ResponseWriter, _ *http.Request) {
	reply(w, s.identity.Environment())
}

// unknownUser distinguishes an unknown user from a wrong token: for envd, and so for E2B's clients, both are failures of
// authentication.
var unknownUser = []rpc.Detail{{Type: "ramet.dev.v1.UnknownUser"}}

// account returns the account of a call, whose Basic authorization names a user. Without it, the call is of an SDK and means the
// default of clients. With an empty name, it is of Ramet's own tools and means the container's user.
func (s *Server) account(r *http.Request) (identity.Account, error) {
	name, _, ok := r.BasicAuth()
	switch {
	case !ok:
		return s.identity.Default()
	case name == "":
		return s.identity.Container(), nil
	default:
		return s.identity.Named(name)
	}
}

// fileAccount returns the account of a call to /files, which can also name a user in its request.
func (s *Server) fileAccount(r *http.Request, name string) (identity.Account, error) {
	if name != "" {
		return s.identity.Named(name)
	}
	return s.account(r)
}

// rpcAccount returns the account of a call of an RPC.
func (s *Server) rpcAccount(r *http.Request) (identity.Account, error) {
	account, err := s.account(r)
	if err != nil {
		failure := rpc.Errorf(rpc.Unauthenticated, "the command's user: %s", err)
		failure.Details = unknownUser
		return account, failure
	}
	return account, nil
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// fail responds with an error in envd's form, in which `code` repeats the status. Connect clients cannot read a number
// there, and use the status.
func fail(w http.ResponseWriter, status int, message string, details ...rpc.Detail) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := map[string]any{"message": message, "code": status}
	if len(details) > 0 {
		body["details"] = details
	}
	_ = json.NewEncoder(w).Encode(body)
}
