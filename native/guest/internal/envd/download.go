package envd

import (
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"

	"ramet.dev/native/guest/internal/users"
)

// download streams a file; ranges and conditional requests are net/http's.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	path, _, ok := s.filePath(w, r, "read")
	if !ok {
		return
	}
	file, err := os.Open(path)
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
		fail(w, http.StatusBadRequest, "reading "+path+": it is no regular file")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(path)}))
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// filePath checks whether the caller may, and finds the file and the user that the query names.
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
		fail(w, http.StatusBadRequest, "the request names no path")
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

// reason is an error without the operation and the path that os puts before it.
func reason(err error) string {
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		return inPath.Err.Error()
	}
	return err.Error()
}
