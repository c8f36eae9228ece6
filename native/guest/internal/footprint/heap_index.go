package footprint

import "unsafe"

const (
	pointerBytes = unsafe.Sizeof(uintptr(0))
	// arenaBytes is what one pointer of the runtime's heap index stands for; the index has one for each arena that there
	// could be in 48 bits of addresses (runtime/malloc.go, "Virtual memory layout").
	arenaBytes     = 64 << 20
	heapIndexBytes = 1 << 48 / arenaBytes * pointerBytes
)

// shrinkHeapIndex gives back all of the index but the pages that stand for what is mapped. The collector asks for those
// again and again, whether or not they are of the heap, so each becomes a mapping of its own, and what is around it stays
// untouched. onHeap is the address of anything on the heap.
func shrinkHeapIndex(index mapping, all []mapping, onHeap uintptr) {
	if index.end-index.start != heapIndexBytes || !knows(index, onHeap) {
		return
	}
	// The runtime also asks for the first and for the last address that there can be.
	edges := []mapping{{start: arenaBase, end: arenaBase + 1}, {start: ^uintptr(0), end: 0}}
	next := index.start
	for _, m := range append(edges, all...) {
		start := max(next, pageOf(index, m.start))
		end := pageOf(index, m.end-1) + pageBytes
		if end <= next || end > index.end {
			continue
		}
		giveBack(next, start)
		setApart(start, end)
		next = end
	}
	giveBack(next, index.end)
}

// knows tells whether the index is what it is taken for: then it knows the arena of what is on the heap.
func knows(index mapping, onHeap uintptr) bool {
	entry := entryOf(index, onHeap)
	return entry >= index.start && entry < index.end && *(*uintptr)(at(entry)) != 0
}

func pageOf(index mapping, address uintptr) uintptr {
	return entryOf(index, address) &^ (pageBytes - 1)
}

func entryOf(index mapping, address uintptr) uintptr {
	return index.start + (address-arenaBase)/arenaBytes*pointerBytes
}
