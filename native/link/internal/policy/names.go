package policy

import (
	"net/netip"
	"sync"
	"time"
)

// Names remembers under which names the sandbox learned an address, so that a rule by name can match the connection
// that follows.
type Names struct {
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	known map[netip.Addr]map[string]time.Time // until when
	count int
}

const (
	// minNameTTL is how long a name is kept at least: programs hold on to an address a little longer than they should.
	minNameTTL = 2 * time.Minute
	maxNameTTL = 24 * time.Hour
	maxNames   = 8192
)

// Learn remembers that name has that address, for as long as the answer said.
func (n *Names) Learn(name string, address netip.Addr, ttl time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[netip.Addr]map[string]time.Time{}
	}
	name = normalName(name)
	names := n.known[address]
	if _, found := names[name]; !found {
		n.makeRoom()
		if names = n.known[address]; names == nil {
			names = map[string]time.Time{}
			n.known[address] = names
		}
		n.count++
	}
	names[name] = n.Now().Add(min(max(ttl, minNameTTL), maxNameTTL))
}

// Of returns the names of an address that have not expired.
func (n *Names) Of(address netip.Addr) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.Now()
	var names []string
	for name, until := range n.known[address] {
		if now.Before(until) {
			names = append(names, name)
		}
	}
	return names
}

// makeRoom drops what has expired; where that is not enough, whatever comes first, since a sandbox that asks for so many
// names is not to cost more memory.
func (n *Names) makeRoom() {
	if n.count < maxNames {
		return
	}
	now := n.Now()
	n.drop(func(until time.Time) bool { return !now.Before(until) })
	if n.count >= maxNames {
		left := maxNames / 8
		n.drop(func(time.Time) bool { left--; return left >= 0 })
	}
}

func (n *Names) drop(which func(until time.Time) bool) {
	for address, names := range n.known {
		for name, until := range names {
			if which(until) {
				delete(names, name)
				n.count--
			}
		}
		if len(names) == 0 {
			delete(n.known, address)
		}
	}
}
