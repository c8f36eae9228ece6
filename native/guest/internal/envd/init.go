package envd

import (
	"encoding/json"
	"io"
	"net/http"

	"ramet.dev/native/guest/internal/identity"
	"ramet.dev/native/guest/internal/process"
)

// init is envd's /init: a client with the token can change the environment and the defaults of new commands. Only the
// control port, which clients cannot reach, sets the identity and the token.
func (s *Server) init(w http.ResponseWriter, r *http.Request) {
	var request struct {
		AccessToken    string            `json:"accessToken"`
		EnvVars        map[string]string `json:"envVars"`
		DefaultUser    string            `json:"defaultUser"`
		DefaultWorkdir string            `json:"defaultWorkdir"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &request)
	}
	if err == nil {
		err = process.CheckVariables(request.EnvVars)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "reading the request: "+err.Error())
		return
	}
	if !s.identity.Admits(request.AccessToken) {
		fail(w, http.StatusUnauthorized, "the access token is not valid for this sandbox")
		return
	}
	if request.DefaultUser != "" {
		if _, err := s.identity.Named(request.DefaultUser); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	s.identity.Adjust(identity.Adjustment{
		Token: request.AccessToken, Environment: request.EnvVars, DefaultUser: request.DefaultUser, Workdir: request.DefaultWorkdir,
	})
	w.Header().Set("X-Envd-Version", Version)
	w.WriteHeader(http.StatusNoContent)
}
