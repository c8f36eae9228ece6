// Package envd serves the API of E2B's envd: commands, files and watches, over Connect RPC and HTTP.
package envd

import (
	"encoding/json"
	"net/http"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/rpc"
	"ramet.dev/native/guest/internal/users"
)

// Version is the value of X-Envd-Version: the version of envd whose API is served.
const Version = "0.6.4"

// Server serves clients on port 49983.
type Server struct {
	processes *process.Table
	identity  *identity.State
	watchers  *watchers
}

// New returns a Server.
func New(processes *process.Table, identity *identity.State) *Server {
	return &Server{processes: processes, identity: identity, watchers: newWatchers()}
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

// user returns the user of a request: the name in its Basic authorization, else the default user.
func (s *Server) user(r *http.Request) (users.User, error) {
	name, _, _ := r.BasicAuth()
	user, err := s.identity.User(name)
	if err != nil {
		failure := rpc.Errorf(rpc.Unauthenticated, "the command's user: %s", err)
		failure.Details = unknownUser
		return user, failure
	}
	return user, nil
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
