package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A gatheredLog is a log whose reader can be slow.
type gatheredLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *gatheredLog) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *gatheredLog) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Split(strings.TrimSpace(g.text.String()), "\n")
}

func TestRefusalsAreWrittenBeforeTheEnd(t *testing.T) {
	var log gatheredLog
	r := newRefusals(&log, time.Hour)
	for n := range 10 {
		r.report(fmt.Sprintf("destination %d", n), "private")
	}
	r.end(time.Minute)
	if lines := log.lines(); len(lines) != 10 || lines[9] != "refused: destination 9: private" {
		t.Fatalf("the log has %q", lines)
	}
}

func TestRefusalsEndWithoutAReader(t *testing.T) {
	reader, writer := io.Pipe()
	defer reader.Close()
	r := newRefusals(writer, 0)
	r.report("destination", "private")
	r.end(time.Millisecond)
}

func TestRecentRefusalsAreBounded(t *testing.T) {
	var r recentRefusals
	at := time.Unix(0, 0)
	for n := range 10_000 {
		at = at.Add(time.Second)
		r.add(fmt.Sprintf("%d %s", n, strings.Repeat("é", 400)), "private", at)
	}
	r.add("last", "private", at.Add(time.Second))
	r.add("last", "private", at.Add(time.Second))
	all := r.list()
	if len(all) != maxRecent || all[0].What != "last" || all[0].Count != 2 {
		t.Fatalf("%d refusals, the first %+v", len(all), all[0])
	}
	for _, each := range all {
		if len(each.What) > maxRefusalBytes {
			t.Errorf("%d bytes are remembered", len(each.What))
		}
	}
}

func TestRefusalsOfManyDestinations(t *testing.T) {
	var log gatheredLog
	r := newRefusals(&log, 0)
	r.logged.every = 200 * time.Millisecond
	start := time.Now()
	for n := range 100_000 {
		r.report(fmt.Sprintf("connection to 10.%d.%d.%d:80", n>>16, n>>8&255, n&255), "private")
	}
	whiles := int(time.Since(start)/r.logged.every) + 1
	// Each while, a line for each destination, and one with a count before it.
	if n := len(log.lines()); n > 2*maxDestinations*(whiles+1) {
		t.Errorf("%d lines for 100,000 refusals", n)
	}
	// The next line that is due says how many were left out.
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(strings.Join(log.lines(), "\n"), "more connections") {
		if time.Now().After(deadline) {
			t.Fatal("no line has the count")
		}
		r.report(fmt.Sprintf("connection to %d", time.Now().UnixNano()), "private")
	}
}

func TestRefusalsWithABlockedLog(t *testing.T) {
	log, blocked := io.Pipe()
	r := newRefusals(blocked, 0)
	for n := range 1_000 {
		r.report(fmt.Sprintf("connection to %d", n), "private")
	}
	// Every refusal is in a line, or counted by one, or waits to be counted.
	var counted atomic.Int64
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			n := int64(1)
			_, _ = fmt.Sscanf(lines.Text(), "refused: %d more", &n)
			counted.Add(n)
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); counted.Load()+r.skipped.Load() != 1_000; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d refusals were logged or counted", counted.Load()+r.skipped.Load())
		}
	}
}

func TestRefusalsWithLineFeeds(t *testing.T) {
	var log gatheredLog
	r := newRefusals(&log, 0)
	r.report("DNS question for a\nrefused: forged", "denied")
	r.report("connection to 10.0.0.1:80", "private")
	for deadline := time.Now().Add(10 * time.Second); len(log.lines()) < 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if got := log.lines()[0]; got != "refused: DNS question for a?refused: forged: denied" {
		t.Error(got)
	}
}
