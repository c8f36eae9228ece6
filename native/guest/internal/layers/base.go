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

	"golang.org/x/sys/unix"
)

// Base holds the entries of the root before anything was changed: by their directory and their name, the times of their last
// change (ctime) in nanoseconds. No program can set that time, and gVisor copies a file before it changes it, so an entry with the
// same time is unchanged. The directory of an entry has no leading slash, and is empty for the root. It has the entries of a directory
// if the list has the directory with a slash at its end,
// also if it was a file before.
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
		directory, isListed := strings.CutSuffix(name, "/")
		if !found || err != nil || !isBelowRoot(directory) {
			return nil, fmt.Errorf("a record of the list is invalid: %.80q", record)
		}
		if !isListed {
			base.add(name, changed)
		} else if base[directory] == nil {
			base[strings.Clone(directory)] = map[string]int64{}
		}
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

// mostUnlisted bounds one answer, of which the cell reads 16 MiB. The next one has further directories.
const mostUnlisted = 500

// Unlisted returns directories that were changed and whose entries the base has not. gVisor copies all directories above a change
// before the change, so that there is none below an unchanged one.
func (b Base) Unlisted(options Options) ([]string, error) {
	return b.unlistedIn("", &writer{Options: options})
}

func (b Base) unlistedIn(directory string, w *writer) ([]string, error) {
	found := []string{}
	for each, before := range b[directory] {
		name := path.Join(directory, each)
		if w.isApart(name) {
			continue
		}
		stat, err := lstat(w.at(name))
		if err != nil && ignoreGone(err) != nil {
			return nil, failed(name, err)
		}
		if err != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Ctim.Nano() == before {
			continue
		}
		below := []string{name}
		if b[name] != nil {
			if below, err = b.unlistedIn(name, w); err != nil {
				return nil, err
			}
		}
		if found = append(found, below...); len(found) >= mostUnlisted {
			return found[:mostUnlisted], nil
		}
	}
	return found, nil
}

func isBelowRoot(name string) bool {
	return name != "" && path.Clean("/"+name) == "/"+name
}
