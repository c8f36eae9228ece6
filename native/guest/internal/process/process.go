package process

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// drainQuiet is how long a command that has ended may still have output on its way while a child of it holds the
	// pipes open; drainLimit bounds that for a child that never stops printing.
	drainQuiet = 50 * time.Millisecond
	drainLimit = time.Second
	// drainBytes is more than the pipes can hold: beyond it, what comes is not the command's own.
	drainBytes = 256 << 10
)

// Exit is how a command ended, in the words of envd's end event.
type Exit struct {
	// Code is the exit code, or -1 when a signal ended the command.
	Code int
	// Exited is whether the command ended by itself.
	Exited bool
	// Status is for people: "exit status 1", "signal: killed".
	Status string
	// Signal ended the command, if not zero.
	Signal syscall.Signal
}

// ShellCode is the exit code as a shell reports it: 128 and the signal's number for one that a signal ended.
func (e Exit) ShellCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Process is one command.
type Process struct {
	PID     int
	Tag     *string
	Request any
	Output  *Output

	hidden bool
	table  *Table
	exited chan struct{}
	ended  chan struct{}

	// These belong to the table's lock; exit may be read once exited is closed.
	reaped   bool
	finished bool
	exit     Exit

	input sync.Mutex
	stdin *os.File
	pty   *os.File
}

// Ended is closed when the command has ended and its output has been read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit says how the command ended; only after Ended.
func (p *Process) Exit() Exit { return p.exit }

// Kill ends the command and its whole group.
func (p *Process) Kill() error { return p.Signal(syscall.SIGKILL) }

// Signal reaches the command and its whole group.
func (p *Process) Signal(s syscall.Signal) error { return p.table.signal(p, s) }

// SignalLeader reaches the command itself only.
func (p *Process) SignalLeader(s syscall.Signal) error { return p.table.signalLeader(p, s) }

// ErrNoInput says that the command has no such input, or that it was closed.
var ErrNoInput = errors.New("the command's input is not open")

// WriteStdin gives the command something to read; it waits until the command has room for it or ctx ends.
func (p *Process) WriteStdin(ctx context.Context, data []byte) error {
	return p.write(ctx, data, func() *os.File { return p.stdin })
}

// WritePTY types into the command's terminal.
func (p *Process) WritePTY(ctx context.Context, data []byte) error {
	return p.write(ctx, data, func() *os.File { return p.pty })
}

// CloseStdin gives the command end-of-file.
func (p *Process) CloseStdin() error {
	p.input.Lock()
	defer p.input.Unlock()
	if p.stdin == nil {
		return ErrNoInput
	}
	err := p.stdin.Close()
	p.stdin = nil
	return err
}

// Resize changes the size of the command's terminal.
func (p *Process) Resize(size Size) error {
	p.input.Lock()
	defer p.input.Unlock()
	if p.pty == nil {
		return ErrNoInput
	}
	return resize(p.pty, size)
}

func (p *Process) write(ctx context.Context, data []byte, to func() *os.File) error {
	p.input.Lock()
	defer p.input.Unlock()
	file := to()
	if file == nil {
		return ErrNoInput
	}
	_ = file.SetWriteDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Now()) })
	defer stop()
	_, err := file.Write(data)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// run reads the command's output until it has ended.
func (p *Process) run(s *streams) {
	var readers sync.WaitGroup
	for stream, file := range s.outputs {
		readers.Go(func() { p.pump(stream, file) })
	}
	drained := make(chan struct{})
	go func() {
		readers.Wait()
		close(drained)
	}()
	go func() {
		<-p.exited
		p.drain(drained)
		p.Output.Close()
		close(p.ended)
		p.table.forget(p)
		<-drained
		p.closeFiles(s)
	}()
}

// pump reads one stream to its end, even when the command is gone: a child that it left behind must not meet a broken pipe.
func (p *Process) pump(stream Stream, file *os.File) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := file.Read(buffer)
		if n > 0 {
			p.Output.Append(stream, buffer[:n])
		}
		if err != nil && !errors.Is(err, io.ErrNoProgress) {
			return
		}
	}
}

// drain waits for the rest of the output: to its end, or, where a child of the command holds the streams open, until it
// has been quiet for a moment. Time in which a reader holds the output back does not count.
func (p *Process) drain(drained <-chan struct{}) {
	tick := time.NewTicker(drainQuiet)
	defer tick.Stop()
	atExit, _ := p.Output.progress()
	seen := atExit
	for ticks := time.Duration(0); ticks*drainQuiet < drainLimit; {
		select {
		case <-drained:
			return
		case <-tick.C:
		}
		total, held := p.Output.progress()
		if held {
			continue
		}
		if total == seen || total-atExit > drainBytes {
			return
		}
		seen = total
		ticks++
	}
}

func (p *Process) closeFiles(s *streams) {
	p.input.Lock()
	defer p.input.Unlock()
	p.stdin, p.pty = nil, nil
	s.closeOwnEnds()
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		text := "signal: " + status.Signal().String()
		if status.CoreDump() {
			text += " (core dumped)"
		}
		return Exit{Code: -1, Status: text, Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus(), Exited: true, Status: "exit status " + strconv.Itoa(status.ExitStatus())}
}
