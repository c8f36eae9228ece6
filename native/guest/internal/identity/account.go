package identity

import "ramet.dev/native/guest/internal/users"

// Account is the user of a call, and the directory in which its commands start and to which its paths are relative.
type Account struct {
	users.User
	Workdir string
	// IsContainer is set for calls of Ramet's own tools that name no user.
	IsContainer bool
}

// clientUser is the user that clients of E2B expect in every image.
const clientUser = "user"

// Container returns the account of the entrypoint, for calls of Ramet's own tools.
func (s *State) Container() Account {
	account := s.container
	account.IsContainer = true
	if account.Workdir == "" {
		account.Workdir = account.Home
	}
	return account
}

// Default returns the account of calls that name no user: the one that envd's /init set, else the user `user` of images for E2B,
// else the container's.
func (s *State) Default() (Account, error) {
	s.mu.RLock()
	name := s.defaultUser
	s.mu.RUnlock()
	if name != "" {
		return s.Named(name)
	}
	if account, err := s.Named(clientUser); err == nil {
		return account, nil
	}
	return s.at(s.container.User), nil
}

// Named returns the account of a user of the image.
func (s *State) Named(name string) (Account, error) {
	user, err := users.Lookup(name)
	return s.at(user), err
}

// at returns the account of a client: its working directory is the one that envd's /init set, else that of the container, else the
// user's home. The root directory counts as none, because it is the working directory of images that declare none.
func (s *State) at(user users.User) Account {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.workdir != "":
		return Account{User: user, Workdir: s.workdir}
	case s.container.Workdir != "" && s.container.Workdir != "/":
		return Account{User: user, Workdir: s.container.Workdir}
	default:
		return Account{User: user, Workdir: user.Home}
	}
}
