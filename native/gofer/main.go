// ramet-gofer writes and reads the files of a checkpoint for gVisor, which starts it instead of its own checkpoint gofer if the image
// directory has a file gcs_opts.json (runsc/sandbox/sandbox.go, maybeStartCheckpointGoferAndGetSocket). Pages of the writable layer are
// cloned and not copied: the layer and the checkpoint share blocks of a disk whose file system can do that, such as XFS and btrfs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"gvisor.dev/gvisor/pkg/sentry/state/stateipc"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/pkg/urpc"
)

// The descriptors that gVisor passes.
const (
	socketFD  = 3
	optionsFD = 4
)

const mostOptions = 64 << 10

// Options is the content of gcs_opts.json. gVisor passes it on unread.
type Options struct {
	// Directory has the files of the checkpoint.
	Directory string `json:"directory"`
	// Layer has the file of the sandbox's writable layer. gVisor opens it in an overlay, which clones nothing.
	Layer string `json:"layer"`
	// Report is the file that receives a Report when everything is written.
	Report string `json:"report,omitempty"`
}

// Report says what was written.
type Report struct {
	ClonedBytes uint64 `json:"clonedBytes"`
}

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ramet-gofer:", err)
		os.Exit(1)
	}
}

func serve(arguments []string) error {
	options, err := readOptions(os.NewFile(optionsFD, "gcs_opts.json"))
	if err != nil {
		return err
	}
	files := &files{Options: options, mayWrite: slices.ContainsFunc(arguments, isWrite)}
	server, err := stateipc.NewAsyncFileServer(files)
	if err != nil {
		return err
	}
	socket, err := unet.NewSocket(socketFD)
	if err != nil {
		return err
	}
	calls := urpc.NewServer()
	calls.Register(server)
	// The end of the process closes everything, whatever gVisor has left unfinished.
	if err := calls.Handle(socket); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func isWrite(argument string) bool {
	return argument == "-allow-checkpoint-writes" || argument == "-allow-fscheckpoint-writes"
}

func readOptions(file *os.File) (Options, error) {
	var options Options
	text, err := io.ReadAll(io.LimitReader(file, mostOptions))
	if err == nil {
		err = json.Unmarshal(text, &options)
	}
	if err != nil {
		return options, fmt.Errorf("reading the options: %w", err)
	}
	if options.Directory == "" {
		return options, errors.New("reading the options: directory is missing")
	}
	return options, nil
}
