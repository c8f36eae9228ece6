// Package layers writes what a sandbox has changed in its root file system as a layer of an OCI image: a tar in which an entry
// `.wh.NAME` deletes NAME (image-spec, layer.md).
package layers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// Base holds the entries of the root before anything was changed: by their directory and their name, the times of their last
// change (ctime) in nanoseconds. No program can set that time, and gVisor copies a file before it changes it, so an entry with the
// same time is unchanged. The directory of an entry has no leading slash, and is empty for the root.
type Base map[string]map[string]int64

const (
	mostEntries   = 4_000_000
	mostBytes     = 512 << 20
	longestRecord = 8 << 10
)

// ReadBase reads records of the form "CTIME PATH\x00".
func ReadBase(from io.Reader) (Base, error) {
	base := Base{}
	reader := bufio.NewReaderSize(from, 64<<10)
	for entries, bytes := 0, 0; ; entries++ {
		record, err := reader.ReadSlice(0)
		if err == io.EOF && len(record) == 0 {
			return base, nil
		}
		if err != nil || len(record) > longestRecord {
			return nil, errors.New("a record of the list is too long or has no end")
		}
		if bytes += len(record); bytes > mostBytes || entries == mostEntries {
			return nil, fmt.Errorf("the list has more than %d entries or %d bytes", mostEntries, mostBytes)
		}
		time, name, found := strings.Cut(string(record[:len(record)-1]), " ")
		changed, err := strconv.ParseInt(time, 10, 64)
		if !found || err != nil || !isBelowRoot(name) {
			return nil, fmt.Errorf("a record of the list is invalid: %.80q", record)
		}
		base.add(name, changed)
	}
}

func (b Base) add(name string, changed int64) {
	directory, entry := path.Split(name)
	directory = strings.TrimSuffix(directory, "/")
	if b[directory] == nil {
		b[strings.Clone(directory)] = map[string]int64{}
	}
	b[directory][strings.Clone(entry)] = changed
}

func isBelowRoot(name string) bool {
	return name != "" && path.Clean("/"+name) == "/"+name
}
