package envd

import "ramet.dev/native/guest/internal/pb"

// The messages of process.Process. Names and numbers are those of envd's public contract; see proto/process.proto.

type processConfig struct {
	Cmd  string            `json:"cmd" pb:"1"`
	Args []string          `json:"args,omitempty" pb:"2"`
	Envs map[string]string `json:"envs,omitempty" pb:"3"`
	Cwd  *string           `json:"cwd,omitempty" pb:"4"`
}

type ptySize struct {
	Cols uint32 `json:"cols" pb:"1"`
	Rows uint32 `json:"rows" pb:"2"`
}

type ptyConfig struct {
	Size *ptySize `json:"size,omitempty" pb:"1"`
}

type processInfo struct {
	Config *processConfig `json:"config" pb:"1"`
	PID    uint32         `json:"pid" pb:"2"`
	Tag    *string        `json:"tag,omitempty" pb:"3"`
}

type listResponse struct {
	Processes []*processInfo `json:"processes" pb:"1"`
}

type startRequest struct {
	Process *processConfig `json:"process" pb:"1"`
	PTY     *ptyConfig     `json:"pty" pb:"2"`
	Tag     *string        `json:"tag" pb:"3"`
	Stdin   *bool          `json:"stdin" pb:"4"`
}

type selector struct {
	PID *uint32 `json:"pid" pb:"1"`
	Tag *string `json:"tag" pb:"2"`
}

// selected is a request with only a process selector: Connect and CloseStdin.
type selected struct {
	Process *selector `json:"process" pb:"1"`
}

type updateRequest struct {
	Process *selector  `json:"process" pb:"1"`
	PTY     *ptyConfig `json:"pty" pb:"2"`
}

type processInput struct {
	Stdin *pb.Bytes `json:"stdin" pb:"1"`
	PTY   *pb.Bytes `json:"pty" pb:"2"`
}

type sendInputRequest struct {
	Process *selector     `json:"process" pb:"1"`
	Input   *processInput `json:"input" pb:"2"`
}

type streamInputRequest struct {
	Start     *selected    `json:"start" pb:"1"`
	Data      *streamInput `json:"data" pb:"2"`
	Keepalive *empty       `json:"keepalive" pb:"3"`
}

type streamInput struct {
	Input *processInput `json:"input" pb:"2"`
}

type sendSignalRequest struct {
	Process *selector  `json:"process" pb:"1"`
	Signal  signalEnum `json:"signal" pb:"2"`
}

// eventResponse is the response of Start and Connect.
type eventResponse struct {
	Event *processEvent `json:"event" pb:"1"`
}

type processEvent struct {
	Start     *startEvent `json:"start,omitempty" pb:"1"`
	Data      *dataEvent  `json:"data,omitempty" pb:"2"`
	End       *endEvent   `json:"end,omitempty" pb:"3"`
	Keepalive *empty      `json:"keepalive,omitempty" pb:"4"`
}

type startEvent struct {
	PID uint32 `json:"pid" pb:"1"`
}

type dataEvent struct {
	Stdout *pb.Bytes `json:"stdout,omitempty" pb:"1"`
	Stderr *pb.Bytes `json:"stderr,omitempty" pb:"2"`
	PTY    *pb.Bytes `json:"pty,omitempty" pb:"3"`
}

type endEvent struct {
	ExitCode int32   `json:"exitCode" pb:"1,zigzag"`
	Exited   bool    `json:"exited" pb:"2"`
	Status   string  `json:"status" pb:"3"`
	Error    *string `json:"error,omitempty" pb:"4"`
}

type empty struct{}

type signalEnum int32

var signalNames = map[int32]string{0: "SIGNAL_UNSPECIFIED", 9: "SIGNAL_SIGKILL", 15: "SIGNAL_SIGTERM"}

func (s *signalEnum) UnmarshalJSON(text []byte) (err error) {
	value, err := pb.EnumValue(signalNames, text)
	*s = signalEnum(value)
	return err
}
