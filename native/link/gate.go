package main

import "sync"

// A gate is open or closed, and starts closed. Its listeners are called in order and have returned when set returns.
type gate struct {
	mu      sync.RWMutex
	open    bool
	changed []func(open bool) error
}

func (g *gate) isOpen() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.open
}

func (g *gate) onChange(f func(open bool) error) { g.changed = append(g.changed, f) }

func (g *gate) set(open bool) error {
	g.mu.Lock()
	before := g.open
	g.open = open
	g.mu.Unlock()
	if before == open {
		return nil
	}
	for _, f := range g.changed {
		if err := f(open); err != nil {
			return err
		}
	}
	return nil
}
