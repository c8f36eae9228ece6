// Package identity holds the identity of the sandbox: its token, the environment of its commands and its default user.
// They change when the sandbox is restored as a clone.
package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"sync"

	"ramet.dev/native/guest/internal/users"
)

// State is set through the control port and read by the client port.
type State struct {
	mu          sync.RWMutex
	base        []string
	token       string
	environment map[string]string
	owner       users.User
	defaultUser string
	workdir     string
	generation  int64
}

// New returns the state of a sandbox without a token. base is the container's environment, owner the default user of
// commands, and workdir, if not empty, their default working directory.
func New(base []string, owner users.User, workdir string) *State {
	return &State{base: base, owner: owner, workdir: workdir, environment: map[string]string{}}
}

// Take sets a new token and a new environment.
func (s *State) Take(token string, environment map[string]string, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.generation = token, generation
	s.environment = maps.Clone(environment)
	if s.environment == nil {
		s.environment = map[string]string{}
	}
}

// Adjust applies envd's /init. Empty values change nothing; the environment is merged.
func (s *State) Adjust(token string, environment map[string]string, defaultUser, workdir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != "" {
		s.token = token
	}
	maps.Copy(s.environment, environment)
	if defaultUser != "" {
		s.defaultUser = defaultUser
	}
	if workdir != "" {
		s.workdir = workdir
	}
}

// Generation returns how many identities this memory has had; 0 before the first one.
func (s *State) Generation() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.generation
}

// Token returns the token that clients must send, or empty if none is set.
func (s *State) Token() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.token
}

// Admits reports whether the token is valid. It takes the same time for every wrong token.
func (s *State) Admits(presented string) bool {
	token := s.Token()
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 || token == ""
}

// Environment returns a copy of the default environment of new commands.
func (s *State) Environment() map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.environment)
}

// User returns the user with the given name, or the default user if the name is empty.
func (s *State) User(name string) (users.User, error) {
	if name == "" {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if s.defaultUser == "" {
			return s.owner, nil
		}
		name = s.defaultUser
	}
	return users.Lookup(name)
}

// Workdir returns the working directory of the user's commands that do not set one.
func (s *State) Workdir(user users.User) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.workdir != "" {
		return s.workdir
	}
	return user.Home
}

// CommandEnvironment returns the environment of a new command: that of the container, of the user, of the sandbox and of
// the caller. Later ones take precedence.
func (s *State) CommandEnvironment(user users.User, added map[string]string) []string {
	all := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, entry := range s.base {
		if key, value, ok := strings.Cut(entry, "="); ok {
			all[key] = value
		}
	}
	all["HOME"], all["USER"], all["LOGNAME"] = user.Home, user.Name, user.Name
	maps.Copy(all, s.Environment())
	maps.Copy(all, added)
	env := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		env = append(env, key+"="+all[key])
	}
	return env
}
