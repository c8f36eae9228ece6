package process

import (
	"context"
	"sort"
	"sync"
	"time"
)

// Stream is the source of output.
type Stream byte

const (
	Stdout Stream = iota
	Stderr
	PTY
)

const (
	// chunkBytes limits the size of a chunk into which consecutive writes to one stream are merged.
	chunkBytes = 16 << 10
	// readerTimeout is how long a process waits for a reader that is a whole buffer behind and makes no progress. After
	// that, the reader loses the oldest output, so that a dead client cannot block a process.
	readerTimeout = 2 * time.Second
)

type chunk struct {
	stream Stream
	at     uint64
	data   []byte
}

func (c chunk) end() uint64 { return c.at + uint64(len(c.data)) }

// Output keeps the last bytes that a process wrote to all its streams, in order. Readers share this buffer, and each has
// a position in it.
type Output struct {
	limit int

	mu      sync.Mutex
	chunks  []chunk
	size    int
	end     uint64
	closed  bool
	changed chan struct{}
	readers map[*Reader]struct{}
	moved   chan struct{}
	waiting int
}

// NewOutput returns an Output that keeps up to limit bytes.
func NewOutput(limit int) *Output {
	return &Output{limit: limit, changed: make(chan struct{}), moved: make(chan struct{}), readers: map[*Reader]struct{}{}}
}

// Append adds output of the process. It waits for readers that make progress, so that they miss nothing.
func (o *Output) Append(stream Stream, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaitReaders(len(data))
	for r := range o.readers {
		if r.position == o.end {
			r.progress = time.Now()
		}
	}
	if last := len(o.chunks) - 1; last >= 0 && o.chunks[last].stream == stream && len(o.chunks[last].data)+len(data) <= chunkBytes {
		o.chunks[last].data = append(o.chunks[last].data, data...)
	} else {
		o.chunks = append(o.chunks, chunk{stream: stream, at: o.end, data: append([]byte(nil), data...)})
	}
	o.size += len(data)
	o.end += uint64(len(data))
	for o.size > o.limit && len(o.chunks) > 1 {
		o.size -= len(o.chunks[0].data)
		o.chunks[0].data = nil
		o.chunks = o.chunks[1:]
	}
	o.announce()
}

// Close marks the end of the output.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.announce()
}

// Follow returns a reader that starts with the oldest output kept. The caller closes it.
func (o *Output) Follow() *Reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &Reader{output: o, awaited: true, progress: time.Now()}
	o.readers[r] = struct{}{}
	return r
}

// progress returns the number of bytes written so far, and whether a writer is waiting for a reader.
func (o *Output) progress() (total uint64, blocked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end, o.waiting > 0
}

func (o *Output) announce() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// awaitReaders waits until n more bytes discard nothing that an active reader still needs. The caller holds mu.
func (o *Output) awaitReaders(n int) {
	for {
		slowest := o.slowest(n)
		if slowest == nil {
			return
		}
		left := readerTimeout - time.Since(slowest.progress)
		if left <= 0 {
			slowest.awaited = false
			continue
		}
		moved := o.moved
		o.waiting++
		o.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
		o.mu.Lock()
		o.waiting--
	}
}

func (o *Output) slowest(n int) *Reader {
	for r := range o.readers {
		if r.awaited && o.end+uint64(n)-r.position > uint64(o.limit) {
			return r
		}
	}
	return nil
}

// Reader follows an Output.
type Reader struct {
	output   *Output
	position uint64
	missed   uint64
	awaited  bool
	progress time.Time
}

// Next returns the next output, in order, and waits for it. `more` is false at the end. The bytes are shared and
// must not be changed.
func (r *Reader) Next(ctx context.Context) (stream Stream, data []byte, more bool, err error) {
	o := r.output
	for {
		o.mu.Lock()
		if stream, data, more = r.take(); more {
			o.mu.Unlock()
			return stream, data, true, nil
		}
		closed, changed := o.closed, o.changed
		o.mu.Unlock()
		if closed {
			return 0, nil, false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, nil, false, ctx.Err()
		}
	}
}

// Missed returns the number of bytes that were discarded before this reader read them.
func (r *Reader) Missed() uint64 {
	r.output.mu.Lock()
	defer r.output.mu.Unlock()
	return r.missed
}

// Close ends the reader. Writers no longer wait for it.
func (r *Reader) Close() {
	o := r.output
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.readers, r)
	r.report()
}

func (r *Reader) take() (Stream, []byte, bool) {
	o := r.output
	i := sort.Search(len(o.chunks), func(i int) bool { return o.chunks[i].end() > r.position })
	r.progress, r.awaited = time.Now(), true
	if i == len(o.chunks) {
		return 0, nil, false
	}
	c := o.chunks[i]
	if r.position < c.at {
		r.missed += c.at - r.position
		r.position = c.at
	}
	data := c.data[r.position-c.at:]
	r.position = c.end()
	r.report()
	return c.stream, data, true
}

func (r *Reader) report() {
	close(r.output.moved)
	r.output.moved = make(chan struct{})
}
