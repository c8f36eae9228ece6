package footprint

const (
	// chunkBytes is the memory per entry of the runtime's page index. An entry records which pages of the chunk are
	// allocated and which are released (runtime/mpagealloc.go). A table has 8192 entries of 128 bytes.
	chunkBytes     = 4 << 20
	entryBytes     = 128
	tableEntries   = 8192
	pageIndexBytes = tableEntries * entryBytes
	// nearBytes on each side of the used entry are kept. They cover 512 MiB of heap, many times the guest's limit.
	nearBytes = 16 << 10
)

// shrinkPageIndex releases the entries of a table of the page index that are far from those of the heap.
func shrinkPageIndex(table mapping, onHeap uintptr) {
	if table.end-table.start != pageIndexBytes {
		return
	}
	used := table.start + (onHeap-arenaBase)/chunkBytes%tableEntries*entryBytes
	if isZero(used &^ (pageBytes - 1)) {
		return
	}
	used &^= pageBytes - 1
	release(table.start, max(table.start, used-nearBytes))
	release(min(table.end, used+nearBytes), table.end)
}
