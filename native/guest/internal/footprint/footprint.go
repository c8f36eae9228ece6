// Package footprint keeps the guest's own memory small: it lies in the sandbox's memory beside the user's programs, and
// all of it is looked through at every checkpoint, while the world stands still.
package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"
)

const (
	pageBytes = 4 << 10
	// backedBytes is what gVisor backs at once, and its alignment.
	backedBytes = 2 << 20
	// heapPieceBytes is what it backs at once of the heap, once that is in pieces.
	heapPieceBytes = 256 << 10
	// marginBytes is left at the beginning of a large variable, for smaller ones that lie before it and were not used yet.
	marginBytes = 64 << 10
	// largeVariableBytes is more than any variable of the runtime has: a run of this length lies in one that only certified
	// builds of crypto use (32 MiB).
	largeVariableBytes = 512 << 10
	// firstStackBytes is more than the first thread needs below where it began; the runtime gives it 64 KiB.
	firstStackBytes = 96 << 10
)

// Limit bounds what the guest will take. It comes first in main.
func Limit() {
	runtime.MemProfileRate = 0
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(32 << 20)
	}
}

// Shrink gives back what a start left untouched, after Limit. gVisor backs a page that is touched together with the 2 MiB
// around it, as far as one mapping reaches; it counts all of that as resident, and looks for pages of zeros in it at each
// checkpoint. Only memory is given back that nobody can be writing to. It takes some milliseconds, so nobody should wait
// for it. Where memory does not look as it does for gVisor and this version of Go, it stays as it is.
func Shrink() {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil || len(text) == 0 {
		return
	}
	all := parseMappings(string(text))
	onHeap := uintptr(unsafe.Pointer(unsafe.SliceData(text)))
	for i, m := range all {
		switch {
		case !m.writable:
		case m.name == "[stack]":
			giveBack(m.start, endOfFreeStack(m))
		case m.name == "[anon: Go: heap]":
			cut(m)
		case m.name == "[anon: Go: page alloc index]":
			shrinkPageIndex(m, onHeap)
		case m.name == "[anon: Go: heap index]":
			shrinkHeapIndex(m, all, onHeap)
		case m.name == "[anon: Go: profiler hash buckets]":
			// What it holds of the time before Limit is looked up by nobody.
			giveBack(m.start, m.end)
		case m.name == "" && i > 0 && all[i-1].writable && all[i-1].offset > 0 && all[i-1].end == m.start:
			// The program's variables that begin as zero follow those that do not, which lie in its file.
			shrinkVariables(m)
		}
	}
}

// cut parts the heap into pieces: where it is not backed yet, what will be backed around a page ends with its piece.
func cut(heap mapping) {
	for piece := heap.start; piece+heapPieceBytes <= heap.end; piece += 2 * heapPieceBytes {
		setApart(piece, piece+heapPieceBytes)
	}
}

// shrinkVariables gives back the beginning of a large variable that nobody uses, as far as it is backed because of the
// variables before it, and parts it from them.
func shrinkVariables(variables mapping) {
	backed := min(variables.end, (variables.start+backedBytes)&^(backedBytes-1))
	run := variables.start
	for page := variables.start; page < backed; page += pageBytes {
		if !isZero(page) {
			run = page + pageBytes
		}
	}
	if run+largeVariableBytes <= backed {
		giveBack(run+marginBytes, backed)
		setApart(run+marginBytes, backed)
	}
}

// endOfFreeStack is up to where the first thread's stack is unused for good: the arguments lie at its upper end, below
// them the pointers to them and to the environment, and below those the thread began.
func endOfFreeStack(stack mapping) uintptr {
	if len(os.Args) == 0 || os.Args[0] == "" {
		return stack.start
	}
	arguments := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0])))
	pointers := uintptr(len(os.Args)+len(os.Environ())+64) * pointerBytes
	kept := pointers + firstStackBytes
	if arguments < stack.start+kept || arguments >= stack.end {
		return stack.start
	}
	return (arguments - kept) &^ (pageBytes - 1)
}
