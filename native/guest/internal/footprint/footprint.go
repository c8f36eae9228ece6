// Package footprint keeps the guest's own memory small. It is part of the sandbox's memory, and gVisor scans all of it at
// every checkpoint, while the sandbox is paused.
package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"
)

const (
	pageBytes = 4 << 10
	// backedBytes is the size and the alignment of the unit in which gVisor backs memory.
	backedBytes = 2 << 20
	// heapPieceBytes is that size for the heap, after splitHeap.
	heapPieceBytes = 256 << 10
	// marginBytes at the beginning of a large variable stay, for unused smaller variables in front of it.
	marginBytes = 64 << 10
	// largeVariableBytes is more than the size of any variable of the runtime. A run of zeros of this length is in the
	// variable of 32 MiB that only certified builds of crypto use.
	largeVariableBytes = 512 << 10
	// firstStackBytes is more than the first thread needs below its first frame; the runtime gives it 64 KiB.
	firstStackBytes = 96 << 10
)

// Limit limits the memory that the guest will use. Call it first in main.
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

// Shrink releases memory that is backed but was never used. Call it after Limit. If a page is touched, gVisor backs the
// 2 MiB around it, up to the ends of the mapping. It counts all of that as resident, and scans it for zero pages at each
// checkpoint. Shrink releases only memory that no goroutine can be writing to, and leaves memory alone whose layout is not
// that of gVisor and this version of Go. It takes some milliseconds: call it in the background.
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
			release(m.start, endOfFreeStack(m))
		case m.name == "[anon: Go: heap]":
			splitHeap(m)
		case m.name == "[anon: Go: page alloc index]":
			shrinkPageIndex(m, onHeap)
		case m.name == "[anon: Go: heap index]":
			shrinkHeapIndex(m, all, onHeap)
		case m.name == "[anon: Go: profiler hash buckets]":
			// It has only profiles from before Limit, and nothing reads them.
			release(m.start, m.end)
		case m.name == "" && i > 0 && all[i-1].writable && all[i-1].offset > 0 && all[i-1].end == m.start:
			// The variables that are zero at the start (.bss) follow the initialized ones, which are mapped from the file.
			shrinkVariables(m)
		}
	}
}

// splitHeap splits the heap's mapping into pieces, so that gVisor backs at most one piece around a touched page.
func splitHeap(heap mapping) {
	for piece := heap.start; piece+heapPieceBytes <= heap.end; piece += 2 * heapPieceBytes {
		split(piece, piece+heapPieceBytes)
	}
}

// shrinkVariables releases the beginning of a large unused variable, which is backed because of the variables in front of
// it, and splits the mapping between them.
func shrinkVariables(variables mapping) {
	backed := min(variables.end, (variables.start+backedBytes)&^(backedBytes-1))
	run := variables.start
	for page := variables.start; page < backed; page += pageBytes {
		if !isZero(page) {
			run = page + pageBytes
		}
	}
	if run+largeVariableBytes <= backed {
		release(run+marginBytes, backed)
		split(run+marginBytes, backed)
	}
}

// endOfFreeStack returns the end of the part of the first thread's stack that will never be used. From the top, a stack
// has the arguments, the pointers to them and to the environment, and the thread's first frame.
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
