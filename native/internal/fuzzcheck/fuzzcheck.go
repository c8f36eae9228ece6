// Package fuzzcheck is for fuzz tests: one input may neither hang nor leave anything behind.
package fuzzcheck

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	// inputTimeout is thousands of times more than an input needs, because the machine may be busy.
	inputTimeout = 10 * time.Second
	// mostPerCheck is how many inputs run at most between two looks at the process.
	mostPerCheck = 4096
	// leastChecks is how often the process is looked at, however few inputs there are.
	leastChecks = 10
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
	// Compared is the number of inputs since the figures with which these were compared.
	Compared int `json:"compared"`
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
	if process.inputs++; process.inputs%inputsPerCheck() != 0 {
		return
	}
	now := figures()
	if process.first == nil {
		process.first = &now
		return
	}
	first := *process.first
	now.Compared = now.Inputs - first.Inputs
	report(t, now)
	if now.HeapBytes > first.HeapBytes+maxMoreHeap || now.Goroutines > first.Goroutines+maxMoreObjects ||
		now.Descriptors > first.Descriptors+maxMoreObjects {
		t.Errorf("a leak: after %d inputs the process holds %+v, after %d inputs %+v", first.Inputs, first, now.Inputs, now)
	}
}

// inputsPerCheck depends on the inputs that the engine was told to send.
var inputsPerCheck = sync.OnceValue(func() int {
	inputs, err := strconv.Atoi(os.Getenv("RAMET_FUZZ_INPUTS"))
	if err != nil {
		return mostPerCheck
	}
	return max(1, min(mostPerCheck, inputs/leastChecks))
})

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
