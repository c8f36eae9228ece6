package footprint

const (
	// chunkBytes is what one entry of the runtime's page index stands for: which pages of a chunk are taken, and which are
	// given back (runtime/mpagealloc.go). A table has 8192 entries of 128 bytes.
	chunkBytes     = 4 << 20
	entryBytes     = 128
	tableEntries   = 8192
	pageIndexBytes = tableEntries * entryBytes
	// nearBytes of the table around what is used stand for 512 MiB of heap, many times what the guest may take.
	nearBytes = 16 << 10
)

// shrinkPageIndex gives back what a table of the page index has for addresses that are far from the heap.
func shrinkPageIndex(table mapping, onHeap uintptr) {
	if table.end-table.start != pageIndexBytes {
		return
	}
	used := table.start + (onHeap-arenaBase)/chunkBytes%tableEntries*entryBytes
	if isZero(used &^ (pageBytes - 1)) {
		return
	}
	used &^= pageBytes - 1
	giveBack(table.start, max(table.start, used-nearBytes))
	giveBack(min(table.end, used+nearBytes), table.end)
}
