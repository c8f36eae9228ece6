package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

const (
	// maxDestinations limits the destinations of which refusals remembers that it has logged them. A sandbox that walks
	// through addresses gets this many lines a minute, and then a count.
	maxDestinations = 256
	// queuedLines limits the lines that wait for a slow reader.
	queuedLines = 64
	// linePause limits the lines to ten per second.
	linePause = 100 * time.Millisecond
)

// refusals logs rejected connections with their reason, for operators. It never blocks: a line too many is counted.
type refusals struct {
	logged  oncePerWhile
	lines   chan string
	ending  chan struct{}
	ended   chan struct{}
	skipped atomic.Int64
	recent  recentRefusals
}

func newRefusals(out io.Writer, pause time.Duration) *refusals {
	r := &refusals{lines: make(chan string, queuedLines), ending: make(chan struct{}), ended: make(chan struct{})}
	r.logged = oncePerWhile{every: time.Minute, maxKeys: maxDestinations}
	go r.write(out, pause)
	return r
}

// write writes the lines, with a pause after each, until end.
func (r *refusals) write(out io.Writer, pause time.Duration) {
	defer close(r.ended)
	for {
		select {
		case line := <-r.lines:
			r.writeLine(out, line)
			select {
			case <-time.After(pause):
			case <-r.ending:
			}
		case <-r.ending:
			for len(r.lines) > 0 {
				r.writeLine(out, <-r.lines)
			}
			return
		}
	}
}

func (r *refusals) writeLine(out io.Writer, line string) {
	if n := r.skipped.Swap(0); n > 0 {
		fmt.Fprintf(out, "refused: %d more connections and DNS questions, which are not logged\n", n)
	}
	fmt.Fprintln(out, line)
}

// end writes the queued lines without a pause: the last refusal is often why a program has ended. It returns after limit
// also if nothing reads them.
func (r *refusals) end(limit time.Duration) {
	close(r.ending)
	select {
	case <-r.ended:
	case <-time.After(limit):
	}
}

func (r *refusals) report(what, why string) {
	r.recent.add(printable(what), why, time.Now())
	due, full := r.logged.due(what)
	if full {
		r.skipped.Add(1)
	}
	if !due {
		return
	}
	select {
	case r.lines <- "refused: " + printable(what) + ": " + why:
	default:
		r.skipped.Add(1)
	}
}

// printable replaces what could forge a line: the sandbox chooses the names that it asks for.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// oncePerWhile limits how often each key is due, because a sandbox may retry without end.
type oncePerWhile struct {
	every time.Duration
	// maxKeys limits the remembered keys. A further key is not due until one is forgotten. 0: no limit, for keys that do
	// not come from the sandbox.
	maxKeys int
	mu      sync.Mutex
	last    map[string]time.Time
}

// due reports whether key was not due for a while, and whether it was left out because too many other keys were due.
func (o *oncePerWhile) due(key string) (due, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if at, found := o.last[key]; found && now.Sub(at) < o.every {
		return false, false
	}
	if o.last == nil {
		o.last = map[string]time.Time{}
	}
	if o.maxKeys > 0 && len(o.last) >= o.maxKeys && !o.forget(now) {
		return false, true
	}
	o.last[key] = now
	return true, false
}

// forget removes the keys that are due again, and reports whether there were any.
func (o *oncePerWhile) forget(now time.Time) bool {
	before := len(o.last)
	for key, at := range o.last {
		if now.Sub(at) >= o.every {
			delete(o.last, key)
		}
	}
	return len(o.last) < before
}
