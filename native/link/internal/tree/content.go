package tree

import (
	"io"

	"golang.org/x/sys/unix"
)

// content copies what is in a file: its blocks are shared if the file system can do that, and its holes stay holes. At most `size`
// bytes are copied, so that a file that grows meanwhile has an end.
func (c *copier) content(from, to int, size int64) error {
	if size == 0 {
		return nil
	}
	if !c.cannotShare {
		err := unix.IoctlFileClone(to, from)
		if err == nil {
			c.SharedBytes += size
			return nil
		}
		switch err {
		case unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.ENOSYS, unix.EPERM:
			c.cannotShare = true
		case unix.EINVAL, unix.ETXTBSY:
			// This file only.
		default:
			return err
		}
	}
	for at := int64(0); at < size; {
		start, end, err := nextData(from, at, size)
		if err != nil || start == end {
			if err != nil {
				return err
			}
			break
		}
		if err := c.copyRange(from, to, start, end); err != nil {
			return err
		}
		at = end
	}
	return unix.Ftruncate(to, size)
}

// nextData returns the next part of the file that is no hole, or an empty one.
func nextData(file int, at, size int64) (start, end int64, err error) {
	start, err = unix.Seek(file, at, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return at, at, nil
	}
	if err != nil {
		// The file system does not know its holes.
		return at, size, nil
	}
	end, err = unix.Seek(file, start, unix.SEEK_HOLE)
	if err != nil {
		end = size
	}
	if start >= size {
		return at, at, nil
	}
	return start, min(end, size), nil
}

func (c *copier) copyRange(from, to int, at, end int64) error {
	for at < end {
		in, out := at, at
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-at, 1<<30)), 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EXDEV || err == unix.EOPNOTSUPP || err == unix.EINVAL || err == unix.ENOSYS || err == unix.EPERM:
			return c.readAndWrite(from, to, at, end)
		case err != nil:
			return err
		case n == 0:
			// The file was truncated.
			return nil
		}
		at += int64(n)
		c.CopiedBytes += int64(n)
	}
	return nil
}

func (c *copier) readAndWrite(from, to int, at, end int64) error {
	for at < end {
		n, err := unix.Pread(from, c.buffer[:min(int64(len(c.buffer)), end-at)], at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		for done := 0; done < n; {
			written, err := unix.Pwrite(to, c.buffer[done:n], at+int64(done))
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			if written == 0 {
				return io.ErrShortWrite
			}
			done += written
		}
		at += int64(n)
		c.CopiedBytes += int64(n)
	}
	return nil
}
