package main

import (
	"io"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
)

// writer appends to one file. It writes while gVisor prepares the next operation, one after another: the kernel writes to a file only once
// at a time.
type writer struct {
	*files
	fd      int
	offset  uint64
	cloned  uint64
	sources []source
	done    []stateio.Completion
}

// source is the descriptor of a file whose pages are written.
type source int

func (w *writer) Close() error {
	for _, each := range w.sources {
		_ = unix.Close(int(each))
	}
	return unix.Close(w.fd)
}

func (w *writer) MaxWriteBytes() uint64      { return mostBytes }
func (w *writer) MaxRanges() int             { return mostRanges }
func (w *writer) MaxParallel() int           { return mostParallel }
func (w *writer) NeedRegisterSourceFD() bool { return true }
func (w *writer) Reserve(uint64)             {}

func (w *writer) RegisterSourceFD(fd int32, _ uint64, _ []stateio.ClientFileRangeSetting) (stateio.SourceFile, error) {
	from, err := w.registered(fd)
	if err != nil {
		return nil, err
	}
	w.sources = append(w.sources, source(from))
	return source(from), nil
}

func (w *writer) AddWrite(id int, from stateio.SourceFile, part memmap.FileRange, _ []byte) {
	w.add(id, from.(source), part)
}

func (w *writer) AddWritev(id int, _ uint64, from stateio.SourceFile, parts []memmap.FileRange, _ []unix.Iovec) {
	w.add(id, from.(source), parts...)
}

func (w *writer) add(id int, from source, parts ...memmap.FileRange) {
	completion := stateio.Completion{ID: id}
	for _, part := range parts {
		if completion.Err = w.write(from, part); completion.Err != nil {
			break
		}
		completion.N += part.Length()
	}
	w.done = append(w.done, completion)
}

func (w *writer) write(from source, part memmap.FileRange) error {
	if isWhole(part.Start, part.Length(), w.offset) {
		clone := unix.FileCloneRange{
			Src_fd: int64(from), Src_offset: part.Start, Src_length: part.Length(), Dest_offset: w.offset,
		}
		// Memory cannot be cloned, for example. Each error has the same remedy: a copy.
		if unix.IoctlFileCloneRange(w.fd, &clone) == nil {
			w.offset += part.Length()
			w.cloned += part.Length()
			return nil
		}
	}
	// Without a mapping the kernel need not fill the page table of this process.
	if _, err := unix.Seek(w.fd, int64(w.offset), unix.SEEK_SET); err != nil {
		return err
	}
	for at := int64(part.Start); at < int64(part.End); {
		n, err := unix.Sendfile(w.fd, int(from), &at, int(int64(part.End)-at))
		if err != nil && err != unix.EINTR {
			return err
		}
		if n == 0 && err == nil {
			return io.ErrUnexpectedEOF
		}
		w.offset += uint64(max(n, 0))
	}
	return nil
}

func (w *writer) Wait(completions []stateio.Completion, _ int) ([]stateio.Completion, error) {
	completions = append(completions, w.done...)
	w.done = w.done[:0]
	return completions, nil
}

func (w *writer) Finalize() error { return w.report(w.cloned) }
