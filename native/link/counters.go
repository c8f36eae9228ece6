package main

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ramet.dev/native/internal/proxy"
)

// counters counts the outgoing traffic of the sandbox since link started.
type counters struct {
	allowed, denied, failed, overLimit atomic.Int64
	questions, refusedQuestions        atomic.Int64
	bytes                              proxy.Bytes
}

// An egressReport is what the sandbox has sent and what was refused.
type egressReport struct {
	Connections struct {
		Allowed   int64 `json:"allowed"`
		Denied    int64 `json:"denied"`
		Failed    int64 `json:"failed"`
		OverLimit int64 `json:"overLimit"`
		Open      int64 `json:"open"`
	} `json:"connections"`
	Bytes struct {
		Out int64 `json:"out"`
		In  int64 `json:"in"`
	} `json:"bytes"`
	DNS struct {
		Questions int64 `json:"questions"`
		Refused   int64 `json:"refused"`
	} `json:"dns"`
	Refused []refusal `json:"refused"`
}

func (e *egress) report() *egressReport {
	r := &egressReport{Refused: e.refused.recent.list()}
	c := &e.counters
	r.Connections.Allowed, r.Connections.Denied = c.allowed.Load(), c.denied.Load()
	r.Connections.Failed, r.Connections.OverLimit = c.failed.Load(), c.overLimit.Load()
	r.Connections.Open = int64(len(e.slots))
	r.Bytes.Out, r.Bytes.In = c.bytes.There.Load(), c.bytes.Back.Load()
	r.DNS.Questions, r.DNS.Refused = c.questions.Load(), c.refusedQuestions.Load()
	return r
}

const (
	// maxRecent limits the remembered refusals. The oldest is forgotten first.
	maxRecent = 64
	// maxRefusalBytes is more than the longest host name needs.
	maxRefusalBytes = 320
)

// A refusal is a destination or a name that the sandbox was denied.
type refusal struct {
	What  string    `json:"what"`
	Why   string    `json:"why"`
	Count int64     `json:"count"`
	Last  time.Time `json:"last"`
}

type recentRefusals struct {
	mu     sync.Mutex
	byWhat map[string]*refusal
}

func (r *recentRefusals) add(what, why string, at time.Time) {
	if len(what) > maxRefusalBytes {
		what = strings.ToValidUTF8(what[:maxRefusalBytes], "")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byWhat[what]; known != nil {
		known.Why, known.Last = why, at
		known.Count++
		return
	}
	if r.byWhat == nil {
		r.byWhat = map[string]*refusal{}
	}
	if len(r.byWhat) >= maxRecent {
		r.forgetOldest()
	}
	r.byWhat[what] = &refusal{What: what, Why: why, Count: 1, Last: at}
}

func (r *recentRefusals) forgetOldest() {
	var oldest *refusal
	for _, each := range r.byWhat {
		if oldest == nil || each.Last.Before(oldest.Last) {
			oldest = each
		}
	}
	delete(r.byWhat, oldest.What)
}

// list returns the refusals, the last one first.
func (r *recentRefusals) list() []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]refusal, 0, len(r.byWhat))
	for _, each := range r.byWhat {
		all = append(all, *each)
	}
	slices.SortFunc(all, func(a, b refusal) int { return b.Last.Compare(a.Last) })
	return all
}
