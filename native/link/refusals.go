package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// refusals logs rejected connections with their reason to stderr, for operators.
type refusals struct{ oncePerWhile }

func (r *refusals) report(what, why string) {
	if r.due(what) {
		fmt.Fprintf(os.Stderr, "refused: %s: %s\n", what, why)
	}
}

// oncePerWhile limits how often each key is due, because a sandbox may retry without end.
type oncePerWhile struct {
	every time.Duration
	mu    sync.Mutex
	last  map[string]time.Time
}

// maxKeys limits the remembered keys. All are discarded when it is reached.
const maxKeys = 256

func (o *oncePerWhile) due(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if at, found := o.last[key]; found && now.Sub(at) < o.every {
		return false
	}
	if o.last == nil || len(o.last) >= maxKeys {
		o.last = map[string]time.Time{}
	}
	o.last[key] = now
	return true
}
