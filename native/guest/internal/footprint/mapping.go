package footprint

import (
	"strconv"
	"strings"
)

// mapping is one line of /proc/self/maps.
type mapping struct {
	start, end uintptr
	// offset is the position of the mapping's start in its file.
	offset   uint64
	writable bool
	// name is the file's path or, in brackets, the purpose of the memory; empty if unknown.
	name string
}

// parseMappings ignores lines that it cannot parse.
func parseMappings(text string) []mapping {
	var all []mapping
	for line := range strings.Lines(text) {
		// Addresses, permissions, offset, device, inode, and a name that may have spaces.
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, startErr := strconv.ParseUint(from, 16, 64)
		end, endErr := strconv.ParseUint(to, 16, 64)
		offset, offsetErr := strconv.ParseUint(fields[2], 16, 64)
		if startErr != nil || endErr != nil || offsetErr != nil {
			continue
		}
		all = append(all, mapping{
			start:    uintptr(start),
			end:      uintptr(end),
			offset:   offset,
			writable: strings.HasPrefix(fields[1], "rw"),
			name:     strings.Join(fields[5:], " "),
		})
	}
	return all
}
