// Package layers writes what a sandbox has changed in its root file system as a layer of an OCI image: a tar in which an entry
// `.wh.NAME` deletes NAME (image-spec, layer.md).
package layers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Base holds the entries of the root before anything was changed: their paths, without a leading slash, with the times of their
// last change (ctime) in nanoseconds. No program can set that time, and gVisor copies a file before it changes it, so an entry
// with the same time is unchanged.
type Base map[string]int64

const (
	mostEntries   = 4_000_000
	longestRecord = 8 << 10
)

// ReadBase reads records of the form "CTIME PATH\x00".
func ReadBase(from io.Reader) (Base, error) {
	base := Base{}
	reader := bufio.NewReaderSize(from, 64<<10)
	for {
		record, err := reader.ReadSlice(0)
		if err == io.EOF && len(record) == 0 {
			return base, nil
		}
		if err != nil || len(record) > longestRecord {
			return nil, errors.New("a record of the list is too long or has no end")
		}
		time, path, found := strings.Cut(string(record[:len(record)-1]), " ")
		changed, err := strconv.ParseInt(time, 10, 64)
		if !found || err != nil || path == "" {
			return nil, fmt.Errorf("a record of the list is invalid: %.80q", record)
		}
		if len(base) == mostEntries {
			return nil, fmt.Errorf("the list has more than %d entries", mostEntries)
		}
		base[path] = changed
	}
}
