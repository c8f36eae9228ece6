package process

import (
	"os"
)

// streams holds the pipes or the terminal between a command and the guest.
type streams struct {
	child   [3]*os.File
	inherit bool
	stdin   *os.File
	pty     *os.File
	outputs map[Stream]*os.File
}

func openStreams(spec Spec) (_ *streams, err error) {
	s := &streams{outputs: map[Stream]*os.File{}, inherit: spec.Inherit}
	defer func() {
		if err != nil {
			s.closeChildEnds()
			s.closeOwnEnds()
		}
	}()
	if spec.PTY != nil {
		master, terminal, err := openPTY(*spec.PTY, spec.User)
		if err != nil {
			return nil, err
		}
		s.child = [3]*os.File{terminal, terminal, terminal}
		s.pty, s.outputs[PTY] = master, master
		return s, nil
	}
	if spec.Stdin {
		s.child[0], s.stdin, err = os.Pipe()
	} else {
		s.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	if spec.Inherit {
		s.child[1], s.child[2] = os.Stdout, os.Stderr
		return s, nil
	}
	for _, stream := range []Stream{Stdout, Stderr} {
		if s.outputs[stream], s.child[1+int(stream)], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// childFiles returns the command's descriptors 0, 1 and 2. Fd makes them blocking, as programs expect.
func (s *streams) childFiles() []uintptr {
	return []uintptr{s.child[0].Fd(), s.child[1].Fd(), s.child[2].Fd()}
}

func (s *streams) closeChildEnds() {
	for i, file := range s.child {
		if file != nil && !(s.inherit && i > 0) {
			_ = file.Close()
		}
	}
}

func (s *streams) closeOwnEnds() {
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
	for _, file := range s.outputs {
		if file != nil {
			_ = file.Close()
		}
	}
}
