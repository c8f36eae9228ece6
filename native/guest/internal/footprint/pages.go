package footprint

import (
	"syscall"
	"unsafe"
)

func isZero(page uintptr) bool {
	return *(*[pageBytes]byte)(at(page)) == [pageBytes]byte{}
}

// giveBack makes the pages what they were before they were touched: zeros, backed by nothing.
func giveBack(start, end uintptr) {
	if start < end {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
	}
}

// setApart makes the pages a mapping of its own, by an attribute that means nothing here: the guest never forks without
// sharing its memory until the child executes something else.
func setApart(start, end uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTFORK)
}

// at is for addresses of which /proc/self/maps says that they are mapped.
func at(address uintptr) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(nil), address)
}
