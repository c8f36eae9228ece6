package control

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

const (
	// sandboxAddress is the same in every sandbox (docs/architecture.md, "Addresses").
	sandboxAddress = "169.254.17.2"
	// hostsMark marks the guest's line in /etc/hosts.
	hostsMark = "# ramet"
)

// setHostname sets the kernel's host name and, if they are writable, the files that contain it. The kernel's name needs a
// capability that sandboxes commonly lack. A cell then sets it in the container's spec, which also applies on a restore.
func setHostname(name string) error {
	err := syscall.Sethostname([]byte(name))
	if now, nameErr := os.Hostname(); nameErr == nil && now == name {
		err = nil
	}
	return errors.Join(
		err,
		tolerated(rewrite("/etc/hostname", []byte(name+"\n"))),
		tolerated(setHosts("/etc/hosts", name)),
	)
}

// setHosts makes the name resolve to the sandbox's address, and keeps all other lines.
func setHosts(path, name string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var kept bytes.Buffer
	for line := range strings.Lines(string(old)) {
		if !strings.HasSuffix(strings.TrimSpace(line), hostsMark) {
			kept.WriteString(line)
		}
	}
	if text := kept.Bytes(); len(text) > 0 && text[len(text)-1] != '\n' {
		kept.WriteByte('\n')
	}
	if len(old) == 0 {
		kept.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
	}
	kept.WriteString(sandboxAddress + "\t" + name + "\t" + hostsMark + "\n")
	return rewrite(path, kept.Bytes())
}

// tolerated ignores the errors of an image that is mounted read-only.
func tolerated(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
