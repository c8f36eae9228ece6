package main

import (
	"sync"
	"time"
)

// A gate is open or closed, and starts closed. Its listeners are called in order and have returned when set returns.
type gate struct {
	mu   sync.RWMutex
	open bool
	// opened is closed when the gate opens for the first time.
	opened  chan struct{}
	first   sync.Once
	changed []func(open bool) error
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

func (g *gate) isOpen() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.open
}

// untilOpened reports whether the gate is open, and waits for that at most limit if it has never been open. A gate that was closed
// again is not awaited: what comes then may be from a sandbox that is being replaced.
func (g *gate) untilOpened(limit time.Duration) bool {
	select {
	case <-g.opened:
	case <-time.After(limit):
	}
	return g.isOpen()
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
	if open {
		g.first.Do(func() { close(g.opened) })
	}
	return nil
}
