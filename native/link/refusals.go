package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// refusals tells, on stderr, what was refused and why: an operator's answer to "why does it not connect".
type refusals struct{ oncePerWhile }

func (r *refusals) tell(what, why string) {
	if r.due(what) {
		fmt.Fprintf(os.Stderr, "refused: %s: %s\n", what, why)
	}
}

// oncePerWhile says for each key at most once in a while that it is due, since a sandbox may try without end.
type oncePerWhile struct {
	every time.Duration
	mu    sync.Mutex
	last  map[string]time.Time
}

// maxKeys bounds the memory of what was due; all is forgotten when it is full.
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
