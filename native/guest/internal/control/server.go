// Package control serves the control port, through which only the cell assigns the guest's identity.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/internal/loopback"
)

// Server serves the cell on port 49982.
type Server struct {
	Identity   *identity.State
	Processes  *process.Table
	Entrypoint *Entrypoint
	// HookDir holds the programs that run when the sandbox is restored as a clone.
	HookDir string
	// Root is the root directory of the sandbox. Empty outside of one, in tests.
	Root string
	// StateDir receives the identity and the generation for programs in the sandbox.
	StateDir string
	// MarkDir receives the variables of E2B, of a sandbox that has them.
	MarkDir string
	// Bundles are the files of the trust stores. Default: those of common images.
	Bundles []string
	// DropClients resets the connections of clients, which are useless after a restore.
	DropClients func()
	// Ports are the local ports of connections.
	Ports *Ports
	// Loopback serves link's connections to programs. They are connections of clients, too.
	Loopback *Loopback

	handover handover
}

// Handler returns the handler of the control port.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("POST /init", s.init)
	mux.HandleFunc("POST /trust", s.trust)
	mux.HandleFunc("POST /quiesce", s.quiesce)
	mux.HandleFunc("POST /changes", s.changes)
	mux.HandleFunc("GET /random-programs", s.randomPrograms)
	mux.HandleFunc("GET /programs", s.programs)
	mux.HandleFunc("GET /exit", s.exit)
	if s.Loopback != nil {
		mux.HandleFunc("POST "+loopback.Path+"{port}", s.Loopback.connect)
	}
	return mux
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"pid":        os.Getpid(),
		"generation": s.Identity.Generation(),
		"entrypoint": s.Entrypoint.Status(),
	})
}

// quiesce flushes files before a capture. It delays the capture, so it must be fast.
func (s *Server) quiesce(w http.ResponseWriter, _ *http.Request) {
	syscall.Sync()
	reply(w, http.StatusOK, struct{}{})
}

func (s *Server) exit(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.Entrypoint.Ended():
		status := s.Entrypoint.Status()
		reply(w, http.StatusOK, exitReply{ExitCode: status.ExitCode, Message: status.Message})
	case <-r.Context().Done():
	}
}

type exitReply struct {
	ExitCode *int `json:"exitCode"`
	// Message is why the entrypoint could not be started.
	Message string `json:"message,omitempty"`
}

// init continues when its caller disconnects: a repeated call returns the result.
func (s *Server) init(w http.ResponseWriter, r *http.Request) {
	request, err := readInit(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "accepting an identity failed: "+err.Error())
		return
	}
	outcome, err := s.take(context.WithoutCancel(r.Context()), request)
	var conflict *conflictError
	switch {
	case errors.As(err, &conflict):
		refuse(w, http.StatusConflict, "Conflict", "accepting an identity failed: "+err.Error())
	case err != nil:
		refuse(w, http.StatusInternalServerError, "Internal", "accepting an identity failed: "+err.Error())
	default:
		reply(w, http.StatusOK, outcome)
		// Started after the response, with the identity already set.
		go s.Entrypoint.Start()
	}
}

func readInit(from io.Reader) (InitRequest, error) {
	var request InitRequest
	body, err := io.ReadAll(io.LimitReader(from, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err == nil {
		err = request.check()
	}
	return request, err
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"code": code, "message": message, "retryable": false})
}
