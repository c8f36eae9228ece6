// Ramet-link is the network of one sandbox ("net"), the namespaces around one cell on a single machine ("pod"), and the
// answer to whether this machine lets either be made ("probe").
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"ramet.dev/native/link/internal/pod"
)

const usage = `usage:
  ramet-link net                       network of one sandbox: JSON lines on stdin and stdout
  ramet-link pod [flags] -- CMD ARG…   run CMD in namespaces of its own, as a Pod's sandbox would
  ramet-link probe                     what this machine allows, as JSON
`

// The first thread belongs to main for good. Threads that enter another network namespace end with their goroutine, and
// the first thread cannot end: /proc/<pid>/ns/net would show the sandbox's namespace from then on.
func init() { runtime.LockOSThread() }

func main() {
	debug.SetGCPercent(40) // resident size matters more here than throughput of the collector
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch os.Args[1] {
	case "net":
		os.Exit(serveNet(os.Stdin, os.Stdout))
	case "pod":
		os.Exit(pod.Main(os.Args[2:]))
	case pod.InitName:
		os.Exit(pod.Init())
	case "probe":
		os.Exit(probe(os.Stdout))
	case probeChildName:
		os.Exit(probeChild(os.Stdout))
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}
