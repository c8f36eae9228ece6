package process

import (
	"context"
	"sort"
	"sync"
	"time"
)

// Stream says where output came from.
type Stream byte

const (
	Stdout Stream = iota
	Stderr
	PTY
)

const (
	// chunkBytes is up to what size neighbouring writes of one stream are kept as one.
	chunkBytes = 16 << 10
	// readerPatience is how long a process waits for a reader that is a whole buffer behind and takes nothing. After it
	// that reader loses the oldest output and the process runs on: a dead client never holds a process up.
	readerPatience = 2 * time.Second
)

type chunk struct {
	stream Stream
	at     uint64
	data   []byte
}

func (c chunk) end() uint64 { return c.at + uint64(len(c.data)) }

// Output keeps the last bytes that a process wrote, of all its streams in their order. Readers follow it at their own
// pace, each with a position in it; there is no buffer per reader.
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

// NewOutput makes an Output that keeps up to limit bytes.
func NewOutput(limit int) *Output {
	return &Output{limit: limit, changed: make(chan struct{}), moved: make(chan struct{}), readers: map[*Reader]struct{}{}}
}

// Append adds what a process wrote. It waits for readers that keep reading, so that they miss nothing.
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

// Close says that nothing more will come.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.announce()
}

// Follow makes a reader that begins with the oldest output kept. Close it when done.
func (o *Output) Follow() *Reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &Reader{output: o, awaited: true, progress: time.Now()}
	o.readers[r] = struct{}{}
	return r
}

// progress says how many bytes were ever written, and whether a writer waits for a reader: with it one notices that a
// process has gone quiet.
func (o *Output) progress() (total uint64, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end, o.waiting > 0
}

func (o *Output) announce() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// awaitReaders returns when n more bytes take nothing away from a reader that still reads. Called with mu held.
func (o *Output) awaitReaders(n int) {
	for {
		slowest := o.slowest(n)
		if slowest == nil {
			return
		}
		left := readerPatience - time.Since(slowest.progress)
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

// Next returns more output, in order. `more` is false when there is none and none will come. The bytes are shared and
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

// Missed says how many bytes had gone when this reader came for them.
func (r *Reader) Missed() uint64 {
	r.output.mu.Lock()
	defer r.output.mu.Unlock()
	return r.missed
}

// Close ends the reader: nothing waits for it any more.
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
