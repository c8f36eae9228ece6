package envd

import (
	"io/fs"
	"net/http"
	"strings"
	"syscall"
)

const (
	// metadataHeader is the prefix of headers that become metadata of an uploaded file.
	metadataHeader = "X-Metadata-"
	// metadataAttribute is the prefix of the extended attributes that hold it.
	metadataAttribute = "user.e2b."
	// Linux allows no larger attributes and lists of their names (xattr(7)).
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

// setMetadata replaces the metadata of a file, because it describes the content that is replaced too.
func setMetadata(path string, metadata map[string]string) error {
	for name := range metadataOf(path) {
		if _, ok := metadata[name]; !ok {
			_ = syscall.Removexattr(path, metadataAttribute+name)
		}
	}
	for name, value := range metadata {
		if err := syscall.Setxattr(path, metadataAttribute+name, []byte(value), 0); err != nil {
			return &fs.PathError{Op: "setting metadata of", Path: path, Err: err}
		}
	}
	return nil
}

// metadataOf returns the metadata of a file or of the target of a symbolic link; nil if it has none, or if its file system has no
// extended attributes.
func metadataOf(path string) map[string]string {
	names, ok := attribute(func(buffer []byte) (int, error) { return syscall.Listxattr(path, buffer) })
	if !ok {
		return nil
	}
	var metadata map[string]string
	for name := range strings.SplitSeq(string(names), "\x00") {
		key, isOurs := strings.CutPrefix(name, metadataAttribute)
		if !isOurs {
			continue
		}
		value, ok := attribute(func(buffer []byte) (int, error) { return syscall.Getxattr(path, name, buffer) })
		if !ok {
			continue
		}
		if metadata == nil {
			metadata = map[string]string{}
		}
		metadata[key] = strings.ToValidUTF8(string(value), "\uFFFD")
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
