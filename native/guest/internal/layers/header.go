package layers

import (
	"archive/tar"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func (w *writer) header(stat *unix.Stat_t, header tar.Header) error {
	if strings.HasPrefix(path.Base(header.Name), whiteout) {
		return errWhiteout
	}
	if len(header.Name) > longestName {
		return fmt.Errorf("a layer cannot have a path of more than %d bytes", longestName)
	}
	attributes := 0
	for _, value := range header.PAXRecords {
		attributes += len(value)
	}
	if attributes > mostAttributes {
		return fmt.Errorf("a layer cannot have a file with more than %d bytes of extended attributes", mostAttributes)
	}
	if err := w.count(); err != nil {
		return err
	}
	header.Format = tar.FormatPAX
	header.Mode = int64(stat.Mode & 0o7777)
	header.Uid, header.Gid = int(stat.Uid), int(stat.Gid)
	header.ModTime = time.Unix(stat.Mtim.Sec, stat.Mtim.Nsec)
	return w.out.WriteHeader(&header)
}

// count counts an entry. `ramet-link layer` unpacks as many.
func (w *writer) count() error {
	if w.Entries++; w.Entries > mostEntries {
		return fmt.Errorf("a layer cannot have more than %d files", mostEntries)
	}
	return nil
}

func (w *writer) attributesAt(name string) map[string]string {
	return w.attributes(
		func(into []byte) (int, error) { return unix.Llistxattr(w.at(name), into) },
		func(attribute string, into []byte) (int, error) { return unix.Lgetxattr(w.at(name), attribute, into) },
	)
}

// attributes returns the extended attributes in the form of other tar programs. A tar has no attribute with a "=" in its name.
func (w *writer) attributes(
	list func(into []byte) (int, error), get func(attribute string, into []byte) (int, error),
) map[string]string {
	length, err := list(w.buffer)
	if err != nil || length <= 0 {
		return nil
	}
	records := map[string]string{}
	for _, attribute := range strings.Split(strings.TrimSuffix(string(w.buffer[:length]), "\x00"), "\x00") {
		size, err := get(attribute, w.buffer)
		if err == nil && !strings.Contains(attribute, "=") {
			records["SCHILY.xattr."+attribute] = string(w.buffer[:size])
		}
	}
	return records
}
