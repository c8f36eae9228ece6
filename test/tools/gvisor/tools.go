//go:build tools

// Package tools names the program whose module this module pins.
package tools

import _ "gvisor.dev/gvisor/runsc"
