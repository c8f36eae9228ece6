package footprint

import "unsafe"

const (
	pointerBytes = unsafe.Sizeof(uintptr(0))
	// arenaBytes is the memory per entry of the runtime's heap index. The index has an entry for each possible arena in a
	// 48-bit address space (runtime/malloc.go, "Virtual memory layout").
	arenaBytes     = 64 << 20
	heapIndexBytes = 1 << 48 / arenaBytes * pointerBytes
)

// shrinkHeapIndex releases the index except for the pages with entries of mapped memory. The garbage collector reads those
// entries again and again, also for memory outside the heap, so each such page becomes a separate mapping and the pages
// around it are not backed again. onHeap is any address on the heap.
func shrinkHeapIndex(index mapping, all []mapping, onHeap uintptr) {
	if index.end-index.start != heapIndexBytes || !isHeapIndex(index, onHeap) {
		return
	}
	// The runtime also reads the entries of the first and of the last possible address.
	edges := []mapping{{start: arenaBase, end: arenaBase + 1}, {start: ^uintptr(0), end: 0}}
	next := index.start
	for _, m := range append(edges, all...) {
		start := max(next, pageOf(index, m.start))
		end := pageOf(index, m.end-1) + pageBytes
		if end <= next || end > index.end {
			continue
		}
		release(next, start)
		split(start, end)
		next = end
	}
	release(next, index.end)
}

// isHeapIndex reports whether the mapping is the heap index: it must have an entry for the arena of onHeap.
func isHeapIndex(index mapping, onHeap uintptr) bool {
	entry := entryOf(index, onHeap)
	return entry >= index.start && entry < index.end && *(*uintptr)(at(entry)) != 0
}

func pageOf(index mapping, address uintptr) uintptr {
	return entryOf(index, address) &^ (pageBytes - 1)
}

func entryOf(index mapping, address uintptr) uintptr {
	return index.start + (address-arenaBase)/arenaBytes*pointerBytes
}
