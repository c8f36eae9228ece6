package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// blockBytes is the unit in which holes are left.
	blockBytes = 64 << 10
	// sparse begins the names of records for files of which a tar has only a part: a few bytes can then have any size.
	sparse = "GNU.sparse."
)

var zeros [blockBytes]byte

func (u *unpacker) file(parent int, base string, header *tar.Header, content io.Reader) error {
	for record := range header.PAXRecords {
		if strings.HasPrefix(record, sparse) {
			return errors.New("its content is sparse, which is unsupported")
		}
	}
	opened, err := retry(func() (int, error) {
		return unix.Openat(parent, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return once(err)
	}
	file := os.NewFile(uintptr(opened), base)
	defer func() { _ = file.Close() }()
	if err := u.content(file, content, header.Size); err != nil {
		return err
	}
	// A change of the owner removes capabilities and bits of the mode.
	mode, err := setOwner(opened, "", header)
	if err != nil {
		return err
	}
	if err := setAttributes(opened, header.PAXRecords); err != nil {
		return err
	}
	if err := retried(func() error { return unix.Fchmod(opened, mode) }); err != nil {
		return err
	}
	if err := setTimes(opened, "", timeOf(header)); err != nil {
		return err
	}
	return file.Close()
}

// content writes a file and leaves holes for blocks of zeros: a sparse file of a sandbox is one on the node.
func (u *unpacker) content(file *os.File, content io.Reader, size int64) error {
	for at := int64(0); at < size; {
		read := u.buffer[:min(int64(len(u.buffer)), size-at)]
		if _, err := io.ReadFull(content, read); err != nil {
			return errors.Join(errors.New("its content is incomplete"), err)
		}
		if err := writeBlocks(file, read, at); err != nil {
			return err
		}
		at += int64(len(read))
	}
	return file.Truncate(size)
}

func writeBlocks(file *os.File, data []byte, at int64) error {
	for len(data) > 0 {
		hole := 0
		for hole < len(data) && isZero(data[hole:min(hole+blockBytes, len(data))]) {
			hole = min(hole+blockBytes, len(data))
		}
		data, at = data[hole:], at+int64(hole)
		end := 0
		for end < len(data) && !isZero(data[end:min(end+blockBytes, len(data))]) {
			end = min(end+blockBytes, len(data))
		}
		if _, err := file.WriteAt(data[:end], at); err != nil {
			return err
		}
		data, at = data[end:], at+int64(end)
	}
	return nil
}

func isZero(block []byte) bool { return bytes.Equal(block, zeros[:len(block)]) }
