package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"

	"ramet.dev/native/link/internal/fault"
	"ramet.dev/native/link/internal/netns"
	"ramet.dev/native/link/internal/pod"
)

const probeChildName = "probe-child"

// A finding reports whether one thing can be created here, and if not, the reason and a hint.
type finding struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// findings holds the results of the network steps in their order. After a failure the rest is not tried.
type findings struct {
	NetworkNamespace finding `json:"networkNamespace"`
	Veth             finding `json:"veth"`
	Nftables         finding `json:"nftables"`
}

type report struct {
	V    int  `json:"v"`
	Root bool `json:"root"`
	// Pod covers `ramet-link pod`: mount, PID, UTS and IPC namespaces, and a user namespace for unprivileged users.
	Pod finding `json:"pod"`
	findings
}

// probe creates everything inside a pod, where the cell's link would run.
func probe(out io.Writer) int {
	r := report{V: 1, Root: os.Geteuid() == 0}
	child := exec.Command("/proc/self/exe", "pod", "--", "/proc/self/exe", probeChildName)
	text, err := child.Output()
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		r.Pod.OK = true
		if err := json.Unmarshal(text, &r.findings); err != nil {
			r.NetworkNamespace = failing(err)
		}
	case asExit(err, &exit):
		r.Pod = failing(pod.ReadFault(exit.Stderr))
	default:
		r.Pod = failing(err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if encoder.Encode(r) != nil || !r.Pod.OK || !r.Nftables.OK {
		return 1
	}
	return 0
}

func probeChild(out io.Writer) int {
	notTried := finding{Reason: "not tried"}
	f := findings{NetworkNamespace: notTried, Veth: notTried, Nftables: notTried}
	defer func() { _ = json.NewEncoder(out).Encode(f) }()
	ns, err := netns.New()
	if err != nil {
		f.NetworkNamespace = failing(err)
		return 0
	}
	ns.Close()
	f.NetworkNamespace = finding{OK: true}
	pair, err := netns.NewPair()
	if err != nil {
		f.Veth = failing(err)
		return 0
	}
	defer pair.Close()
	f.Veth = finding{OK: true}
	if err := pair.Redirect(1); err != nil {
		f.Nftables = failing(err)
		return 0
	}
	f.Nftables = finding{OK: true}
	return 0
}

func failing(err error) finding {
	f := fault.From(err)
	return finding{Reason: f.Message, Hint: f.Hint}
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*exit = e
	return ok
}
