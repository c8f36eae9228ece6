// Package identity holds the identity of the sandbox: its token, the environment of its commands, its limits and its default
// user. They change when the sandbox is restored as a clone.
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

// Identity is given to a sandbox through the control port.
type Identity struct {
	Token       string
	Environment map[string]string
	Generation  int64
	Limits      Limits
}

// Limits are the limits of the sandbox's resources. 0 means that there is none.
type Limits struct {
	MemoryBytes int64
	CPUMillis   int64
}

// Marks are the variables that a sandbox of an E2B client has. Whoever created it chose them, and not envd's /init.
var Marks = []string{"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"}

// State is set through the control port and read by the client port.
type State struct {
	mu   sync.RWMutex
	base []string
	// container is the entrypoint's user, with the working directory of the container.
	container Account
	now       Identity
	// trust holds the variables of the trust store.
	trust map[string]string
	// defaultUser and workdir come from envd's /init.
	defaultUser string
	workdir     string
}

// New returns the state of a sandbox without a token. base is the container's environment, owner its user, and workdir, if not
// empty, its working directory.
func New(base []string, owner users.User, workdir string) *State {
	return &State{
		base:      base,
		container: Account{User: owner, Workdir: workdir},
		now:       Identity{Environment: map[string]string{}},
	}
}

// Take replaces the identity.
func (s *State) Take(identity Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = identity
	s.now.Environment = copied(identity.Environment)
}

// SetTrust replaces the variables by which programs find the trust store. All others take precedence.
func (s *State) SetTrust(variables map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trust = copied(variables)
}

func (s *State) trustVariables() map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.trust
}

// Adjustment is the request of envd's /init.
type Adjustment struct {
	Token string
	// Environment replaces the variables, except the marks. Nil keeps them.
	Environment map[string]string
	DefaultUser string
	Workdir     string
}

// Adjust applies envd's /init. Empty values change nothing.
func (s *State) Adjust(to Adjustment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.Token != "" {
		s.now.Token = to.Token
	}
	if to.Environment != nil {
		environment := copied(to.Environment)
		for _, mark := range Marks {
			delete(environment, mark)
			if value, ok := s.now.Environment[mark]; ok {
				environment[mark] = value
			}
		}
		s.now.Environment = environment
	}
	if to.DefaultUser != "" {
		s.defaultUser = to.DefaultUser
	}
	if to.Workdir != "" {
		s.workdir = to.Workdir
	}
}

// Generation returns how many identities this memory has had; 0 before the first one.
func (s *State) Generation() int64 { return s.identity().Generation }

// Token returns the token that clients must send, or empty if none is set.
func (s *State) Token() string { return s.identity().Token }

// Limits returns the limits of the sandbox's resources.
func (s *State) Limits() Limits { return s.identity().Limits }

// Environment returns a copy of the default environment of new commands.
func (s *State) Environment() map[string]string { return copied(s.identity().Environment) }

// identity returns the current identity. Its environment must not be changed: it is replaced as a whole.
func (s *State) identity() Identity {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now
}

// Admits reports whether the token is valid. It takes the same time for every wrong token.
func (s *State) Admits(presented string) bool {
	token := s.Token()
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 || token == ""
}

// CommandEnvironment returns the environment of a new command: that of the trust store, of the container, of the user, of the
// sandbox and of the caller. Later ones take precedence.
func (s *State) CommandEnvironment(user users.User, added map[string]string) []string {
	all := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	maps.Copy(all, s.trustVariables())
	for _, entry := range s.base {
		if key, value, ok := strings.Cut(entry, "="); ok {
			all[key] = value
		}
	}
	all["HOME"], all["USER"], all["LOGNAME"] = user.Home, user.Name, user.Name
	maps.Copy(all, s.identity().Environment)
	maps.Copy(all, added)
	env := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		env = append(env, key+"="+all[key])
	}
	return env
}

func copied(environment map[string]string) map[string]string {
	if environment == nil {
		return map[string]string{}
	}
	return maps.Clone(environment)
}
