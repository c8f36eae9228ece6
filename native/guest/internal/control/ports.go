package control

import (
	"fmt"
	"os"
	"strings"
)

// Ports makes a clone use other local ports for its connections than its source. After a restore, gVisor begins the sequence numbers of
// new connections at random, and ignores one in two that have the ports of a connection in TIME_WAIT: they hang for a minute.
type Ports struct {
	// File is the kernel's range of ports (ip(7), ip_local_port_range). If it is empty, nothing is changed.
	File string

	last int
}

// portRanges are the halves of gVisor's range. Each is nearly as large as the whole of Linux.
var portRanges = []string{"16000 40767", "40768 65535"}

// gvisorRange is the range of a kernel that has just started.
const gvisorRange = "16000 65535"

// Next changes to the other half, unless a program has set a range of its own.
func (p *Ports) Next() error {
	if p.File == "" {
		return nil
	}
	text, err := os.ReadFile(p.File)
	if err != nil {
		return err
	}
	if now := strings.Join(strings.Fields(string(text)), " "); now != gvisorRange && now != portRanges[p.last] {
		return nil
	}
	next := (p.last + 1) % len(portRanges)
	if err := os.WriteFile(p.File, []byte(portRanges[next]), 0o644); err != nil {
		return fmt.Errorf("using the ports %s: %w", portRanges[next], err)
	}
	p.last = next
	return nil
}
