package envd

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

const (
	// metadataHeader is the prefix of headers that become metadata of an uploaded file.
	metadataHeader = "X-Metadata-"
	// metadataAttribute is the prefix of the extended attributes that hold it.
	metadataAttribute = "user.e2b."
	// maxAttributeName is Linux's limit for the name of an attribute (xattr(7)).
	maxAttributeName = 255
	// maxMetadataBytes is what ext4 can store: all attributes of a file are in one block.
	maxMetadataBytes = 4096
	// maxAttributeBytes is Linux's limit for attributes and lists of their names.
	maxAttributeBytes = 64 << 10
)

// metadataIn returns the metadata that the headers of an upload set. The first value of a header counts.
func metadataIn(header http.Header) map[string]string {
	metadata := map[string]string{}
	for key := range header {
		if name, ok := strings.CutPrefix(key, metadataHeader); ok && name != "" {
			metadata[strings.ToLower(name)] = header.Get(key)
		}
	}
	return metadata
}

// checkMetadata rejects metadata that cannot be stored, before a file is changed.
func checkMetadata(metadata map[string]string) error {
	total := 0
	for name, value := range metadata {
		if !isPrintable(name) || !isPrintable(value) {
			return fmt.Errorf("the metadata %q has a character that is not printable ASCII", name)
		}
		if len(metadataAttribute)+len(name) > maxAttributeName {
			return fmt.Errorf("the name of the metadata %q is longer than %d bytes", name, maxAttributeName-len(metadataAttribute))
		}
		total += len(metadataAttribute) + len(name) + len(value)
	}
	if total > maxMetadataBytes {
		return fmt.Errorf("the metadata has %d bytes with its names; a file can have %d", total, maxMetadataBytes)
	}
	return nil
}

func isPrintable(text string) bool {
	return strings.IndexFunc(text, func(char rune) bool { return char < ' ' || char > '~' }) < 0
}

// setMetadata replaces the metadata of a file, because it describes the content that is replaced too.
func setMetadata(file *os.File, metadata map[string]string) error {
	// The file can have been renamed meanwhile, but not its descriptor.
	path := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	for name := range metadataOf(path) {
		if _, ok := metadata[name]; !ok {
			_ = syscall.Removexattr(path, metadataAttribute+name)
		}
	}
	for name, value := range metadata {
		err := syscall.Setxattr(path, metadataAttribute+name, []byte(value), 0)
		if errors.Is(err, syscall.ENOTSUP) {
			return fmt.Errorf("%s was written without metadata: its file system has no extended attributes: %w", file.Name(), err)
		}
		if err != nil {
			return &fs.PathError{Op: "setting metadata of", Path: file.Name(), Err: err}
		}
	}
	return nil
}

// metadataOf returns the metadata of a file or of the target of a symbolic link; nil if it has none, or if its file system has no
// extended attributes. It leaves out what clients cannot read, because any program can set attributes.
func metadataOf(path string) map[string]string {
	names, ok := attribute(func(buffer []byte) (int, error) { return syscall.Listxattr(path, buffer) })
	if !ok {
		return nil
	}
	var metadata map[string]string
	for name := range strings.SplitSeq(string(names), "\x00") {
		key, isOurs := strings.CutPrefix(name, metadataAttribute)
		if !isOurs || !utf8.ValidString(key) {
			continue
		}
		value, ok := attribute(func(buffer []byte) (int, error) { return syscall.Getxattr(path, name, buffer) })
		if !ok || !utf8.Valid(value) {
			continue
		}
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[key] = string(value)
	}
	return metadata
}

// attribute reads with a small buffer, and once more if that is not enough.
func attribute(read func(buffer []byte) (int, error)) ([]byte, bool) {
	for _, size := range []int{256, maxAttributeBytes} {
		buffer := make([]byte, size)
		n, err := read(buffer)
		if err == nil {
			return buffer[:n], true
		}
		if err != syscall.ERANGE {
			return nil, false
		}
	}
	return nil, false
}
