// Package control serves the port by which the cell, and nobody else, tells the guest who it is.
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
)

// Server answers the cell on port 49982.
type Server struct {
	Identity   *identity.State
	Processes  *process.Table
	Entrypoint *Entrypoint
	// HookDir holds the programs that run when the sandbox wakes up as a clone.
	HookDir string
	// StateDir is where the identity and the generation are written for the sandbox's programs.
	StateDir string
	// DropClients cuts the connections of clients; after a restore they lead nowhere.
	DropClients func()

	handOver handOver
}

// Handler is the control port's interface.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("POST /init", s.init)
	mux.HandleFunc("POST /quiesce", s.quiesce)
	mux.HandleFunc("GET /exit", s.exit)
	return mux
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"pid":        os.Getpid(),
		"generation": s.Identity.Generation(),
		"entrypoint": s.Entrypoint.Status(),
	})
}

// quiesce brings files to rest before a cut. It stands between the wish and the cut, so it does nothing that takes long.
func (s *Server) quiesce(w http.ResponseWriter, _ *http.Request) {
	syscall.Sync()
	reply(w, http.StatusOK, struct{}{})
}

func (s *Server) exit(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.Entrypoint.Ended():
		reply(w, http.StatusOK, map[string]any{"exitCode": s.Entrypoint.ExitCode()})
	case <-r.Context().Done():
	}
}

// init does not stop when its caller goes away: the caller repeats it and finds the result.
func (s *Server) init(w http.ResponseWriter, r *http.Request) {
	var wish Wish
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &wish)
	}
	if err == nil {
		err = wish.check()
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "taking an identity: "+err.Error())
		return
	}
	outcome, err := s.take(context.WithoutCancel(r.Context()), wish)
	var conflict *conflictError
	switch {
	case errors.As(err, &conflict):
		refuse(w, http.StatusConflict, "Conflict", "taking an identity: "+err.Error())
	case err != nil:
		refuse(w, http.StatusInternalServerError, "Internal", "taking an identity: "+err.Error())
	default:
		reply(w, http.StatusOK, outcome)
		// It has its identity from the first moment, and does not compete with the answer.
		go s.Entrypoint.Start()
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"code": code, "message": message, "retryable": false})
}
