package envd

import (
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"ramet.dev/native/guest/internal/users"
)

// download streams a file. net/http handles ranges and conditional requests.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	path, _, ok := s.filePath(w, r, "read")
	if !ok {
		return
	}
	// To open a named pipe without a writer would block a thread for good. It is refused below.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		fail(w, statusOf(err), "reading "+path+": "+reason(err))
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		fail(w, http.StatusInternalServerError, "reading "+path+": "+reason(err))
		return
	}
	if !info.Mode().IsRegular() {
		fail(w, http.StatusBadRequest, "reading "+path+": it is not a regular file")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(path)}))
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// filePath authorizes the caller, and returns the file and the user of the query.
func (s *Server) filePath(w http.ResponseWriter, r *http.Request, operation string) (string, users.User, bool) {
	query := r.URL.Query()
	if r.Header.Get("X-Access-Token") == "" && s.identity.Token() != "" {
		if err := checkSignature(s.identity.Token(), operation, query); err != nil {
			fail(w, http.StatusUnauthorized, err.Error())
			return "", users.User{}, false
		}
	}
	name := query.Get("username")
	if name == "" {
		name, _, _ = r.BasicAuth()
	}
	user, err := s.identity.User(name)
	if err != nil {
		fail(w, http.StatusUnauthorized, err.Error(), unknownUser...)
		return "", user, false
	}
	path := query.Get("path")
	if path == "" && operation == "read" {
		fail(w, http.StatusBadRequest, "the request has no path")
		return "", user, false
	}
	if path != "" {
		path = resolve(path, s.identity.Workdir(user), user)
	}
	return path, user, true
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden
	default:
		return http.StatusInternalServerError
	}
}

// reason returns an error's text without the operation and the path that os adds.
func reason(err error) string {
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		return inPath.Err.Error()
	}
	return err.Error()
}
