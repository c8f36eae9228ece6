package main

import (
	"io"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
)

// reader reads one file at several places at the same time.
type reader struct {
	*files
	fd           int
	destinations []destination
	running      sync.WaitGroup
	done         chan stateio.Completion
	// pending counts the reads that Wait has not returned.
	pending int
}

// destination is the descriptor of a file that receives pages.
type destination int

func newReader(f *files, fd int) *reader {
	return &reader{files: f, fd: fd, done: make(chan stateio.Completion, mostParallel)}
}

func (r *reader) Close() error {
	r.running.Wait()
	for _, each := range r.destinations {
		_ = unix.Close(int(each))
	}
	return unix.Close(r.fd)
}

func (r *reader) MaxReadBytes() uint64            { return mostBytes }
func (r *reader) MaxRanges() int                  { return mostRanges }
func (r *reader) MaxParallel() int                { return mostParallel }
func (r *reader) NeedRegisterDestinationFD() bool { return true }

func (r *reader) RegisterDestinationFD(
	fd int32, _ uint64, _ []stateio.ClientFileRangeSetting,
) (stateio.DestinationFile, error) {
	to, err := r.registered(fd)
	if err != nil {
		return nil, err
	}
	r.destinations = append(r.destinations, destination(to))
	return destination(to), nil
}

func (r *reader) AddRead(id int, offset int64, to stateio.DestinationFile, part memmap.FileRange, mapped []byte) {
	r.add(id, offset, to.(destination), pieces{[]memmap.FileRange{part}, [][]byte{mapped}})
}

func (r *reader) AddReadv(
	id int, offset int64, _ uint64, to stateio.DestinationFile, parts []memmap.FileRange, mapped []unix.Iovec,
) {
	r.add(id, offset, to.(destination), pieces{parts, slicesOf(mapped)})
}

// pieces are ranges of a destination, and where they are mapped.
type pieces struct {
	parts  []memmap.FileRange
	mapped [][]byte
}

func (r *reader) add(id int, offset int64, to destination, pieces pieces) {
	r.pending++
	r.running.Add(1)
	go func() {
		defer r.running.Done()
		completion := stateio.Completion{ID: id}
		for i, part := range pieces.parts {
			n, err := r.read(offset, to, part, pieces.mapped[i])
			completion.N += n
			if err != nil {
				completion.Err = err
				break
			}
			offset += int64(n)
		}
		r.done <- completion
	}()
}

// read returns io.EOF with what is left of the file, if that is less than the part.
func (r *reader) read(offset int64, to destination, part memmap.FileRange, mapped []byte) (uint64, error) {
	if isWhole(part.Start, part.Length(), uint64(offset)) {
		clone := unix.FileCloneRange{
			Src_fd: int64(r.fd), Src_offset: uint64(offset), Src_length: part.Length(), Dest_offset: part.Start,
		}
		if unix.IoctlFileCloneRange(int(to), &clone) == nil {
			return part.Length(), nil
		}
	}
	read := uint64(0)
	for len(mapped) > 0 {
		n, err := unix.Pread(r.fd, mapped, offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return read, err
		}
		if n == 0 {
			return read, io.EOF
		}
		mapped, offset, read = mapped[n:], offset+int64(n), read+uint64(n)
	}
	return read, nil
}

// Wait returns everything that is complete, and waits for at least so many, if so many are pending.
func (r *reader) Wait(completions []stateio.Completion, least int) ([]stateio.Completion, error) {
	for r.pending > 0 {
		if least > 0 {
			completions = append(completions, <-r.done)
		} else {
			select {
			case completion := <-r.done:
				completions = append(completions, completion)
			default:
				return completions, nil
			}
		}
		least--
		r.pending--
	}
	return completions, nil
}

func slicesOf(vectors []unix.Iovec) [][]byte {
	slices := make([][]byte, len(vectors))
	for i, each := range vectors {
		slices[i] = unsafe.Slice(each.Base, each.Len)
	}
	return slices
}
