package envd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"ramet.dev/native/guest/internal/awake"
	"ramet.dev/native/guest/internal/pb"
	"ramet.dev/native/guest/internal/process"
	"ramet.dev/native/guest/internal/rpc"
)

// defaultKeepalive is the keep-alive interval of an idle stream. A caller can request another one.
const defaultKeepalive = 90 * time.Second

// missedTrailer is the number of output bytes that were discarded before the caller read them.
const missedTrailer = "ramet-missed-bytes"

// openTrailer is set if a process that outlives the command keeps its output open.
const openTrailer = "ramet-output-open"

func (s *Server) processRoutes(mux *http.ServeMux) {
	mux.Handle("POST /process.Process/List", rpc.Unary(s.list))
	mux.Handle("POST /process.Process/Start", rpc.ServerStream(s.start))
	mux.Handle("POST /process.Process/Connect", rpc.ServerStream(s.connect))
	mux.Handle("POST /process.Process/Update", rpc.Unary(s.update))
	mux.Handle("POST /process.Process/SendInput", rpc.Unary(s.sendInput))
	mux.Handle("POST /process.Process/StreamInput", rpc.ClientStream(s.streamInput))
	mux.Handle("POST /process.Process/SendSignal", rpc.Unary(s.sendSignal))
	mux.Handle("POST /process.Process/CloseStdin", rpc.Unary(s.closeStdin))
}

func (s *Server) list(_ *http.Request, _ *empty) (*listResponse, error) {
	response := &listResponse{Processes: []*processInfo{}}
	for _, p := range s.processes.List() {
		if config, ok := p.Request.(*processConfig); ok {
			response.Processes = append(response.Processes, &processInfo{Config: config, PID: uint32(p.PID), Tag: p.Tag})
		}
	}
	return response, nil
}

// start runs a command. The command keeps running if the caller disconnects, until the call's deadline.
func (s *Server) start(r *http.Request, request *startRequest, out *rpc.Sender[eventResponse]) error {
	spec, err := s.spec(r, request)
	if err != nil {
		return err
	}
	p, err := s.processes.Start(spec)
	if err != nil {
		return rpc.Errorf(rpc.InvalidArgument, "starting a command: %s", err)
	}
	if limit, err := rpc.Timeout(r); err == nil && limit > 0 {
		stop := awake.AfterFunc(limit, func() { _ = p.Kill() })
		go func() {
			<-p.Ended()
			stop()
		}()
	}
	return follow(r, p, out)
}

func (s *Server) connect(r *http.Request, request *selected, out *rpc.Sender[eventResponse]) error {
	p, err := s.find(request.Process)
	if err != nil {
		return err
	}
	return follow(r, p, out)
}

// follow sends the buffered and the new output of a process, and then its end.
func follow(r *http.Request, p *process.Process, out *rpc.Sender[eventResponse]) error {
	reader := p.Output.Follow()
	defer reader.Close()
	event := func(e processEvent) error { return out.Send(&eventResponse{Event: &e}) }
	if err := event(processEvent{Start: &startEvent{PID: uint32(p.PID)}}); err != nil {
		return err
	}
	keepalive := keepaliveOf(r)
	for {
		waiting, stop := context.WithTimeout(r.Context(), keepalive)
		stream, data, more, err := reader.Next(waiting)
		stop()
		switch {
		case r.Context().Err() != nil:
			return context.Cause(r.Context())
		case err != nil:
			err = event(processEvent{Keepalive: &empty{}})
		case more:
			err = event(processEvent{Data: dataOf(stream, data)})
		default:
			if missed := reader.Missed(); missed > 0 {
				out.SetTrailer(missedTrailer, strconv.FormatUint(missed, 10))
			}
			end := endOf(p.Exit())
			if p.OutputOpen() {
				out.SetTrailer(openTrailer, "true")
				// Clients of E2B do not see the trailer.
				end.Error = cmp.Or(end.Error, &outputOpen)
			}
			return event(processEvent{End: end})
		}
		if err != nil {
			return err
		}
	}
}

func (s *Server) update(_ *http.Request, request *updateRequest) (*empty, error) {
	p, err := s.find(request.Process)
	if err != nil {
		return nil, err
	}
	size := sizeOf(request.PTY)
	if size == nil {
		return &empty{}, nil
	}
	return &empty{}, inputError(p, p.Resize(*size))
}

func (s *Server) sendInput(r *http.Request, request *sendInputRequest) (*empty, error) {
	p, err := s.find(request.Process)
	if err != nil {
		return nil, err
	}
	return &empty{}, give(r.Context(), p, request.Input)
}

func (s *Server) streamInput(r *http.Request, next func() (*streamInputRequest, error)) (*empty, error) {
	var p *process.Process
	for {
		request, err := next()
		if errors.Is(err, io.EOF) {
			return &empty{}, nil
		}
		if err != nil {
			return nil, err
		}
		switch {
		case request.Start != nil:
			if p, err = s.find(request.Start.Process); err != nil {
				return nil, err
			}
		case request.Data != nil && p == nil:
			return nil, rpc.Errorf(rpc.InvalidArgument, "the first message must select a process")
		case request.Data != nil:
			if err := give(r.Context(), p, request.Data.Input); err != nil {
				return nil, err
			}
		}
	}
}

func (s *Server) sendSignal(_ *http.Request, request *sendSignalRequest) (*empty, error) {
	p, err := s.find(request.Process)
	if err != nil {
		return nil, err
	}
	number := syscall.Signal(request.Signal)
	if number != syscall.SIGTERM && number != syscall.SIGKILL {
		return nil, rpc.Errorf(rpc.InvalidArgument, "signal %d cannot be sent: SIGTERM (15) and SIGKILL (9) can", request.Signal)
	}
	if err := p.Signal(number); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, rpc.Errorf(rpc.Internal, "sending %s to process %d: %s", number, p.PID, err)
	}
	return &empty{}, nil
}

func (s *Server) closeStdin(_ *http.Request, request *selected) (*empty, error) {
	p, err := s.find(request.Process)
	if err != nil {
		return nil, err
	}
	return &empty{}, inputError(p, p.CloseStdin())
}

func (s *Server) find(named *selector) (*process.Process, error) {
	switch {
	case named != nil && named.PID != nil:
		if p, ok := s.processes.ByPID(*named.PID); ok {
			return p, nil
		}
		return nil, rpc.Errorf(rpc.NotFound, "no running or recently ended command has the PID %d", *named.PID)
	case named != nil && named.Tag != nil:
		if p, ok := s.processes.ByTag(*named.Tag); ok {
			return p, nil
		}
		return nil, rpc.Errorf(rpc.NotFound, "no running or recently ended command has the tag %q", *named.Tag)
	default:
		return nil, rpc.Errorf(rpc.InvalidArgument, "the request selects no process: set a PID or a tag")
	}
}

func (s *Server) spec(r *http.Request, request *startRequest) (process.Spec, error) {
	config := request.Process
	if config == nil || config.Cmd == "" {
		return process.Spec{}, rpc.Errorf(rpc.InvalidArgument, "the request has no command")
	}
	if err := process.CheckVariables(config.Envs); err != nil {
		return process.Spec{}, rpc.Errorf(rpc.InvalidArgument, "starting a command: %s", err)
	}
	account, err := s.rpcAccount(r)
	if err != nil {
		return process.Spec{}, err
	}
	spec := process.Spec{
		Command: config.Cmd,
		Args:    config.Args,
		Env:     s.identity.CommandEnvironment(account.User, config.Envs),
		User:    account.User,
		Tag:     request.Tag,
		// Clients older than this field expect to be able to write.
		Stdin:   request.Stdin == nil || *request.Stdin,
		PTY:     sizeOf(request.PTY),
		Request: config,
	}
	if request.PTY != nil && spec.PTY == nil {
		spec.PTY = &process.Size{Columns: 80, Rows: 24}
	}
	if config.Cwd != nil && *config.Cwd != "" {
		spec.Dir = resolve(*config.Cwd, account)
	} else if spec.Dir = account.Workdir; !isDirectory(spec.Dir) {
		spec.Dir = "/"
	}
	// SDKs request bash for every image. In most cases sh can run their commands.
	if spec.Command == "/bin/bash" && !exists("/bin/bash") && exists("/bin/sh") {
		spec.Command = "/bin/sh"
	}
	return spec, nil
}

func give(ctx context.Context, p *process.Process, input *processInput) error {
	switch {
	case input != nil && input.Stdin != nil:
		return inputError(p, p.WriteStdin(ctx, *input.Stdin))
	case input != nil && input.PTY != nil:
		return inputError(p, p.WritePTY(ctx, *input.PTY))
	default:
		return rpc.Errorf(rpc.InvalidArgument, "the request has no input")
	}
}

func inputError(p *process.Process, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, process.ErrNoInput), errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		select {
		case <-p.Exited():
			// E2B's command line takes this as the end of a command that needed no more input.
			return rpc.Errorf(rpc.NotFound, "writing to the command: it has ended")
		default:
		}
		return rpc.Errorf(rpc.FailedCondition, "writing to the command: its input is not open")
	default:
		return err
	}
}

func sizeOf(config *ptyConfig) *process.Size {
	if config == nil || config.Size == nil {
		return nil
	}
	return &process.Size{Columns: uint16(min(config.Size.Cols, 0xffff)), Rows: uint16(min(config.Size.Rows, 0xffff))}
}

func dataOf(stream process.Stream, data []byte) *dataEvent {
	bytes := pb.Bytes(data)
	switch stream {
	case process.Stdout:
		return &dataEvent{Stdout: &bytes}
	case process.Stderr:
		return &dataEvent{Stderr: &bytes}
	default:
		return &dataEvent{PTY: &bytes}
	}
}

func endOf(exit process.Exit) *endEvent {
	end := &endEvent{ExitCode: int32(exit.Code), Exited: exit.Exited, Status: exit.Status}
	if exit.Code != 0 {
		end.Error = &exit.Status
	}
	return end
}

var outputOpen = "a process that the command started keeps its output open; what it writes later is not shown"

func keepaliveOf(r *http.Request) time.Duration {
	seconds, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval"))
	if err != nil || seconds < 1 || seconds > 3600 {
		return defaultKeepalive
	}
	return time.Duration(seconds) * time.Second
}
