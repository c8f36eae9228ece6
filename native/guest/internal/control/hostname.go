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
	// hostsMark is how the guest's own line of /etc/hosts is known again.
	hostsMark = "# ramet"
)

// setHostname sets the kernel's name and, where they can be written, the files that repeat it. The kernel's name needs a
// power that sandboxes commonly lack; a cell then gives the name with the container's spec, which counts at a restore too.
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

// setHosts makes the name resolve to the sandbox's address and leaves all other lines as they are.
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

// tolerated drops the errors of an image that is mounted read-only.
func tolerated(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
