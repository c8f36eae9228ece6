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
	// A command's output ends when its last writer has closed it. Processes that outlive the command, such as a server that was
	// started with `&`, can keep it open for ever: the output also ends when nothing was written for quietTicks after the exit.
	quietTicks = 50
	// Ticks are counted because a ticker does not make up for the time in which the sandbox was paused.
	quietTick = 100 * time.Millisecond
)

// Exit is the result of a command, with the fields of envd's end event.
type Exit struct {
	// Code is the exit code, or -1 when a signal ended the command.
	Code int
	// Exited is true if the command exited, and false if a signal ended it.
	Exited bool
	// Status is a message for people: "exit status 1", "signal: killed".
	Status string
	// Signal is the signal that ended the command, or zero.
	Signal syscall.Signal
}

// ShellCode returns the exit code as a shell reports it: 128 plus the signal's number if a signal ended the command.
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
	// isOpen is set before ended is closed.
	isOpen bool

	// The table's lock guards these. After exited is closed, exit can be read without it.
	reaped      bool
	finished    bool
	exit        Exit
	stopKeeping func()

	input sync.Mutex
	stdin *os.File
	pty   *os.File
}

// Exited is closed when the command's own process has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended is closed when the command has ended and its output has been read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit returns the result of the command. It is valid only after Exited.
func (p *Process) Exit() Exit { return p.exit }

// OutputOpen reports whether a process that outlives the command keeps its output open: what it writes later is not kept. It is valid
// only after Ended.
func (p *Process) OutputOpen() bool { return p.isOpen }

// Kill kills the command's process group.
func (p *Process) Kill() error { return p.Signal(syscall.SIGKILL) }

// Signal sends a signal to the command's process group.
func (p *Process) Signal(s syscall.Signal) error { return p.table.signal(p, s) }

// SignalLeader sends a signal to the command's own process only.
func (p *Process) SignalLeader(s syscall.Signal) error { return p.table.signalLeader(p, s) }

// ErrNoInput means that the command has no such input, or that it was closed.
var ErrNoInput = errors.New("the command's input is not open")

// WriteStdin writes to the command's standard input. It waits until the pipe has room or ctx ends.
func (p *Process) WriteStdin(ctx context.Context, data []byte) error {
	return p.write(ctx, data, func() *os.File { return p.stdin })
}

// WritePTY writes to the command's terminal.
func (p *Process) WritePTY(ctx context.Context, data []byte) error {
	return p.write(ctx, data, func() *os.File { return p.pty })
}

// CloseStdin closes the command's standard input.
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
		return context.Cause(ctx)
	}
	return err
}

// run reads the command's output until its end.
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
		p.isOpen = p.isQuiet(drained)
		p.Output.Close()
		close(p.ended)
		p.table.forget(p)
		<-drained
		p.closeFiles(s)
	}()
}

// pump reads one stream to its end, even after the command's exit: a child that still runs must not get a broken pipe.
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

// isQuiet waits for the end of the output and returns false, or returns true when the output has been quiet for quietTicks. Time
// during which a reader blocks the output does not count.
func (p *Process) isQuiet(drained <-chan struct{}) bool {
	tick := time.NewTicker(quietTick)
	defer tick.Stop()
	seen, _ := p.Output.progress()
	for quiet := 0; quiet < quietTicks; {
		select {
		case <-drained:
			return false
		case <-tick.C:
		}
		total, blocked := p.Output.progress()
		switch {
		case total != seen:
			quiet = 0
		case !blocked:
			quiet++
		}
		seen = total
	}
	return true
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
