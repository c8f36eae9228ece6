// Ramet-link provides the network of one sandbox ("net") and the namespaces of one cell on a single machine ("pod"), copies and
// removes the directories of volumes ("tree"), locks files ("lock"), sweeps the cache of a node ("sweep"), and checks whether this machine supports the first two ("probe").
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"ramet.dev/native/link/internal/layer"
	"ramet.dev/native/link/internal/pod"
	"ramet.dev/native/link/internal/tree"
)

const usage = `usage:
  ramet-link net                       network of one sandbox: JSON lines on stdin and stdout
  ramet-link pod [flags] -- CMD ARG…   run CMD in namespaces of its own, as a Pod's sandbox would
  ramet-link tree …                    copies or removes a directory of a volume
  ramet-link layer …                   unpacks the files of a named snapshot
  ramet-link root …                    adds layers to a sandbox that waits to be restored
  ramet-link sweep …                   removes the caches of deleted namespaces from a node
  ramet-link lock …                    locks a file that the caller has open
  ramet-link probe                     what this machine allows, as JSON
`

// Main is locked to the first thread. A thread that enters another network namespace ends with its goroutine. The first
// thread cannot end, and /proc/<pid>/ns/net would then show the sandbox's namespace.
func init() { runtime.LockOSThread() }

func main() {
	debug.SetGCPercent(40) // memory use matters more than the collector's throughput
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
	case "layer":
		os.Exit(layer.Main(os.Args[2:]))
	case "root":
		os.Exit(layer.ReplaceRoot(os.Args[2:]))
	case "sweep":
		os.Exit(sweepForever(os.Args[2:]))
	case "lock":
		os.Exit(lockPassed(os.Args[2:]))
	case "tree":
		os.Exit(tree.Main(os.Args[2:]))
	case "probe":
		os.Exit(probe(os.Stdout))
	case probeChildName:
		os.Exit(probeChild(os.Stdout))
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}
