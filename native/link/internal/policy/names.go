package policy

import (
	"net/netip"
	"sync"
	"time"
)

// Names records the names that the sandbox has resolved to an address, so that a rule with a name matches the connection
// that follows.
type Names struct {
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	known map[netip.Addr]map[string]time.Time // until when
	count int
}

const (
	// minNameTTL is the minimum time to keep a name: programs use an address slightly longer than its TTL.
	minNameTTL = 2 * time.Minute
	maxNameTTL = 24 * time.Hour
	maxNames   = 8192
)

// Learn records an address of a name, for the TTL of the response.
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

// makeRoom removes expired entries. If that is not enough it removes arbitrary ones, so that a sandbox that resolves very
// many names uses no more memory.
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
