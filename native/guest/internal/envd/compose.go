package envd

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"ramet.dev/native/guest/internal/users"
)

// maxComposeBytes limits the body of a compose request: paths of a few thousand parts.
const maxComposeBytes = 1 << 20

type composeRequest struct {
	SourcePaths []string `json:"source_paths"`
	Destination string   `json:"destination"`
	Username    string   `json:"username"`
}

// compose makes one file of the contents of several, in order, and removes these: a client uploads the parts of a large file in
// parallel. The destination is replaced only by the whole content.
func (s *Server) compose(w http.ResponseWriter, r *http.Request) {
	request, err := readCompose(http.MaxBytesReader(w, r.Body, maxComposeBytes))
	if err != nil {
		fail(w, http.StatusBadRequest, "reading the body: "+err.Error())
		return
	}
	account, err := s.fileAccount(r, request.Username)
	if err != nil {
		fail(w, http.StatusUnauthorized, err.Error(), unknownUser...)
		return
	}
	target := resolve(request.Destination, account)
	parts := make([]string, len(request.SourcePaths))
	for i, path := range request.SourcePaths {
		parts[i] = resolve(path, account)
		if status, why := checkPart(parts[i], target); why != "" {
			fail(w, status, "composing "+target+": "+why)
			return
		}
	}
	if err := composeFile(target, parts, account.User); err != nil {
		fail(w, uploadStatus(err), "composing "+target+": "+reason(err))
		return
	}
	for _, part := range parts {
		_ = os.Remove(part)
	}
	reply(w, writtenFile{Path: target, Name: filepath.Base(target), Type: "file"})
}

func readCompose(from io.Reader) (composeRequest, error) {
	var request composeRequest
	err := json.NewDecoder(from).Decode(&request)
	if err == nil && (len(request.SourcePaths) == 0 || request.Destination == "" || slices.Contains(request.SourcePaths, "")) {
		err = errors.New("it needs a destination and source_paths")
	}
	return request, err
}

// checkPart returns why a file cannot be a part of the target, and the status for it.
func checkPart(part, target string) (int, string) {
	info, err := os.Stat(part)
	replaced, targetErr := os.Stat(target)
	switch {
	case part == target, err == nil && targetErr == nil && os.SameFile(info, replaced):
		// It would be removed with the parts, also if a link leads to it.
		return http.StatusBadRequest, "the destination is one of the parts"
	case err != nil:
		return statusOf(err), part + ": " + reason(err)
	case !info.Mode().IsRegular():
		return http.StatusBadRequest, part + " is not a regular file"
	}
	return 0, ""
}

func composeFile(target string, parts []string, user users.User) error {
	if isDirectory(target) {
		return &os.PathError{Op: "open", Path: target, Err: syscall.EISDIR}
	}
	if err := makeParents(filepath.Dir(target), user); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(target), ".compose-*")
	if err != nil {
		return err
	}
	// After the rename, there is no file of this name.
	defer os.Remove(file.Name())
	err = appendAll(file, parts)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = giveTo(file.Name(), user)
	}
	if err == nil {
		err = os.Rename(file.Name(), target)
	}
	return err
}

func appendAll(file *os.File, parts []string) error {
	for _, path := range parts {
		// A named pipe that has replaced the file must not block.
		part, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, part)
		_ = part.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
