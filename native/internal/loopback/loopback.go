// Package loopback is the protocol by which link connects to a port that a program in the sandbox opened only on a loopback
// address. Link asks the guest on its control port, and the connection then belongs to the program.
package loopback

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// Path is the path of the request, with the port as its last segment.
const Path = "/loopback/"

// Accepted is the whole response of a guest that has connected. It has a fixed length, so that link can read it without
// reading a byte of the program's.
const Accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ramet-loopback\r\n\r\n"

// Connect sends the request for a port and reads the response. The connection needs a deadline: the guest is not trusted.
func Connect(conn io.ReadWriter, port uint16) error {
	_, err := fmt.Fprintf(conn, "POST %s%d HTTP/1.1\r\nHost: guest\r\nConnection: Upgrade\r\nUpgrade: ramet-loopback\r\n\r\n", Path, port)
	if err != nil {
		return err
	}
	var answer [len(Accepted)]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	switch text := string(answer[:]); {
	case text == Accepted:
		return nil
	case strings.HasPrefix(text, "HTTP/1.1 504 "):
		return os.ErrDeadlineExceeded
	}
	// Also a guest of an earlier release, which does not know the path.
	return syscall.ECONNREFUSED
}
