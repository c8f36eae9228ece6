package footprint

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

func TestParseMappings(t *testing.T) {
	got := parseMappings("00400000-006ee000 r-xp 00001000 00:0c 3                          /.ramet/guest\n" +
		"c000000000-c000400000 rw-p 00000000 00:00 0                          [anon: Go: heap]\n" +
		"00a64000-02aa6000 rw-p 00000000 00:00 0 \n" +
		"not a mapping at all, but five words\n\n")
	want := []mapping{
		{start: 0x400000, end: 0x6ee000, offset: 0x1000, name: "/.ramet/guest"},
		{start: 0xc000000000, end: 0xc000400000, writable: true, name: "[anon: Go: heap]"},
		{start: 0xa64000, end: 0x2aa6000, writable: true},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d mappings, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("mapping %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestShrinkReleasesOnlyALargeVariable(t *testing.T) {
	const pages = 2 * backedBytes / pageBytes
	memory := mapped(t, pages)
	for i := range memory {
		memory[i] = 0
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	start := (first + backedBytes - 1) &^ (backedBytes - 1)
	inUse := int(start-first) + 40*pageBytes + 7
	memory[inUse] = 1
	shrinkVariables(mapping{start: start, end: start + backedBytes})
	if memory[inUse] != 1 {
		t.Error("a variable in use was released")
	}
	kept := marginBytes/pageBytes + 41
	if backed := backedPages(t, start, backedBytes/pageBytes); backed != kept {
		t.Errorf("%d pages are backed, want %d", backed, kept)
	}
}

func TestShrinkKeepsSmallVariables(t *testing.T) {
	memory := mapped(t, 2*backedBytes/pageBytes)
	for i := range memory {
		memory[i] = 0
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	start := (first + backedBytes - 1) &^ (backedBytes - 1)
	for at := 0; at < backedBytes; at += largeVariableBytes - pageBytes {
		memory[int(start-first)+at] = 1
	}
	shrinkVariables(mapping{start: start, end: start + backedBytes})
	if backed := backedPages(t, start, backedBytes/pageBytes); backed != backedBytes/pageBytes {
		t.Errorf("%d pages are backed, want all", backed)
	}
}

func backedPages(t *testing.T, start uintptr, pages int) int {
	t.Helper()
	resident := make([]byte, pages)
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, start, uintptr(pages*pageBytes), uintptr(unsafe.Pointer(&resident[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	backed := 0
	for _, state := range resident {
		backed += int(state & 1)
	}
	return backed
}

func TestFreeStackEndsBelowTheArguments(t *testing.T) {
	arguments := uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0]))) &^ (pageBytes - 1)
	large := mapping{start: arguments - 8<<20, end: arguments + pageBytes}
	if end := endOfFreeStack(large); end > arguments-firstStackBytes || end < arguments-firstStackBytes-64<<10 {
		t.Errorf("the free part ends %d bytes below the arguments", arguments-end)
	}
	small := mapping{start: arguments - firstStackBytes, end: arguments + pageBytes}
	if end := endOfFreeStack(small); end != small.start {
		t.Errorf("a small stack has %d free bytes, want none", end-small.start)
	}
	elsewhere := mapping{start: 1 << 20, end: 10 << 20}
	if end := endOfFreeStack(elsewhere); end != elsewhere.start {
		t.Errorf("a stack without the arguments has %d free bytes, want none", end-elsewhere.start)
	}
}

func TestShrinkKeepsThePageIndexAroundTheHeap(t *testing.T) {
	memory := mapped(t, pageIndexBytes/pageBytes)
	for i := range memory {
		memory[i] = 0
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	table := mapping{start: start, end: start + pageIndexBytes}
	entry := 5000
	onHeap := arenaBase + uintptr(entry)*chunkBytes + 12345
	shrinkPageIndex(table, onHeap)
	if backed := backedPages(t, start, len(memory)/pageBytes); backed != len(memory)/pageBytes {
		t.Errorf("%d pages of a table without entries of the heap are backed, want all", backed)
	}
	memory[entry*entryBytes] = 1
	memory[entry*entryBytes-nearBytes+pageBytes] = 2
	shrinkPageIndex(table, onHeap)
	if memory[entry*entryBytes] != 1 || memory[entry*entryBytes-nearBytes+pageBytes] != 2 {
		t.Error("entries of the heap were released")
	}
	if backed := backedPages(t, start, len(memory)/pageBytes); backed != 2*nearBytes/pageBytes {
		t.Errorf("%d pages are backed, want %d", backed, 2*nearBytes/pageBytes)
	}
}

func TestRuntimeWorksAfterItsHeapIndexIsShrunk(t *testing.T) {
	if heapIndex.end == 0 {
		t.Fatal("no mapping is the runtime's heap index: its size or its arenas have changed")
	}
	all, onHeap := readMappings(t)
	shrinkHeapIndex(heapIndex, all, onHeap)
	// These need more than two arenas, so the runtime writes new entries and reads old ones.
	var kept [][]byte
	for i := range 200 {
		kept = append(kept, make([]byte, 1<<20))
		kept[i][i] = byte(i)
	}
	runtime.GC()
	for i, block := range kept {
		if block[i] != byte(i) {
			t.Fatalf("block %d was lost", i)
		}
	}
}

// heapIndex is found by its size, because the kernel that runs the tests may have no names for anonymous memory. It is
// looked up only once, because shrinking splits it.
var heapIndex = func() mapping {
	text, _ := os.ReadFile("/proc/self/maps")
	for _, m := range parseMappings(string(text)) {
		index := mapping{start: m.end - heapIndexBytes, end: m.end}
		if m.writable && m.end-m.start >= heapIndexBytes && isHeapIndex(index, uintptr(unsafe.Pointer(unsafe.SliceData(text)))) {
			return index
		}
	}
	return mapping{}
}()

func readMappings(t *testing.T) (all []mapping, onHeap uintptr) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return parseMappings(string(text)), uintptr(unsafe.Pointer(unsafe.SliceData(text)))
}

func TestShrinkKeepsMemoryThatIsNotTheHeapIndex(t *testing.T) {
	memory := mapped(t, int(heapIndexBytes/pageBytes))
	memory[heapIndexBytes/2+1] = 1
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	shrinkHeapIndex(mapping{start: start, end: start + heapIndexBytes}, nil, uintptr(unsafe.Pointer(new(int))))
	if memory[heapIndexBytes/2+1] != 1 {
		t.Error("memory that is not the index was released")
	}
}

func mapped(t *testing.T, pages int) []byte {
	t.Helper()
	memory, err := syscall.Mmap(-1, 0, pages*pageBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(memory) })
	return memory
}
