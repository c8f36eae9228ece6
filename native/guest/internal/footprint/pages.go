package footprint

import (
	"syscall"
	"unsafe"
)

func isZero(page uintptr) bool {
	return *(*[pageBytes]byte)(at(page)) == [pageBytes]byte{}
}

// release drops the content of the pages. They read as zeros and have no backing until they are touched again.
func release(start, end uintptr) {
	if start < end {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
	}
}

// split makes the pages a separate mapping by giving them another attribute. MADV_DONTFORK has no other effect here: the
// guest forks only with shared memory (vfork), until the child calls exec.
func split(start, end uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTFORK)
}

// at converts an address that is mapped according to /proc/self/maps.
func at(address uintptr) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(nil), address)
}
