// Package fuzzcheck is for fuzz tests: one input may neither hang nor leave anything behind.
package fuzzcheck

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	// inputTimeout is thousands of times more than an input needs, because the machine may be busy.
	inputTimeout = 10 * time.Second
	// inputsPerCheck is how many inputs run between two looks at the process.
	inputsPerCheck = 4096
	// maxMoreHeap is more than Go's engine itself holds from some input on, which was up to 100 MiB.
	maxMoreHeap    = 160 << 20
	maxMoreObjects = 16
)

// Figures is what the process holds.
type Figures struct {
	Inputs      int    `json:"inputs"`
	HeapBytes   uint64 `json:"heapBytes"`
	Goroutines  int    `json:"goroutines"`
	Descriptors int    `json:"descriptors"`
}

var process struct {
	sync.Mutex
	inputs int
	first  *Figures
}

// Input runs one input. A hang ends the process with the stacks of all goroutines, so that the fuzzing engine records it.
// Now and then it compares what the process holds with what it held after the first inputs.
func Input(t *testing.T, run func()) {
	t.Helper()
	timer := time.AfterFunc(inputTimeout, func() { panic(fmt.Sprintf("an input took more than %s", inputTimeout)) })
	run()
	timer.Stop()
	process.Lock()
	defer process.Unlock()
	if process.inputs++; process.inputs%inputsPerCheck != 0 {
		return
	}
	now := figures()
	report(t, now)
	if process.first == nil {
		process.first = &now
		return
	}
	first := *process.first
	if now.HeapBytes > first.HeapBytes+maxMoreHeap || now.Goroutines > first.Goroutines+maxMoreObjects ||
		now.Descriptors > first.Descriptors+maxMoreObjects {
		t.Errorf("a leak: after %d inputs the process holds %+v, after %d inputs %+v", first.Inputs, first, now.Inputs, now)
	}
}

func figures() Figures {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	descriptors, _ := os.ReadDir("/proc/self/fd")
	return Figures{
		Inputs: process.inputs, HeapBytes: memory.HeapAlloc, Goroutines: runtime.NumGoroutine(), Descriptors: len(descriptors),
	}
}

// report leaves the figures for `npm run fuzz`.
func report(t *testing.T, now Figures) {
	directory := os.Getenv("RAMET_FUZZ_FIGURES")
	if directory == "" {
		return
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, fmt.Sprintf("%d.json", os.Getpid())), text, 0o644)
	}
	if err != nil {
		t.Log(err)
	}
}
