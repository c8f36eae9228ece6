package envd

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"ramet.dev/native/guest/internal/identity"
)

// download streams a file. net/http handles ranges and conditional requests.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	path, _, ok := s.filePath(w, r, "read")
	if !ok {
		return
	}
	// To open a named pipe without a writer would block a thread for good. It is refused below.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// In envd's words, which its clients can show.
		fail(w, http.StatusNotFound, "path '"+path+"' does not exist")
		return
	}
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
	accepted, partial := acceptedEncodings(r.Header.Get("Accept-Encoding")), isPartial(r.Header)
	zip := accepted.gzip && !partial && (accepted.prefersGzip || !accepted.plain)
	if !zip && !accepted.plain {
		fail(w, http.StatusNotAcceptable, "reading "+path+": supported encodings are gzip, for whole files, and identity")
		return
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(path)}))
	if zip {
		sendZipped(w, r, file)
		return
	}
	if info.Size() == 0 {
		sendUnsized(w, r, file, info.ModTime())
		return
	}
	content, err := steady(file, info.Size())
	if err != nil {
		fail(w, statusOf(err), "reading "+path+": "+reason(err))
		return
	}
	http.ServeContent(w, r, path, info.ModTime(), content)
}

// steadyBytes is the size up to which a file is read before its length is sent.
const steadyBytes = 256 << 10

// steady returns the content of a response, whose length is sent first. A program that rewrites a small file meanwhile must not end the
// response early. A large file would need too much memory; its response ends early if it is shortened.
func steady(file *os.File, size int64) (io.ReadSeeker, error) {
	if size > steadyBytes {
		return file, nil
	}
	content, err := io.ReadAll(io.NewSectionReader(file, 0, steadyBytes+1))
	if err != nil || len(content) > steadyBytes {
		return file, err
	}
	return bytes.NewReader(content), nil
}

// sendUnsized sends a file of the kernel, such as those below /proc: they have no size, and cannot be sought.
func sendUnsized(w http.ResponseWriter, r *http.Request, file *os.File, modified time.Time) {
	first := make([]byte, 1)
	n, err := file.Read(first)
	if err != nil && !errors.Is(err, io.EOF) {
		fail(w, statusOf(err), "reading "+file.Name()+": "+reason(err))
		return
	}
	if n == 0 {
		http.ServeContent(w, r, file.Name(), modified, bytes.NewReader(nil))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	// An error ends the response without its last chunk.
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(first), file)); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// isPartial reports whether the response can be a part of the file or none of it, which net/http serves uncompressed.
func isPartial(header http.Header) bool {
	for _, name := range []string{"Range", "If-Range", "If-Modified-Since", "If-None-Match"} {
		if header.Get(name) != "" {
			return true
		}
	}
	return false
}

// sendZipped compresses a file at the speed of a network. An error ends the response without the end of the compressed data.
func sendZipped(w http.ResponseWriter, r *http.Request, file *os.File) {
	kind := mime.TypeByExtension(filepath.Ext(file.Name()))
	if kind == "" {
		kind = "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Encoding", "gzip")
	if r.Method == http.MethodHead {
		return
	}
	zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if _, err := io.Copy(zipped, file); err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = zipped.Close()
}

// filePath authorizes the caller, and returns the file and the account of the query.
func (s *Server) filePath(w http.ResponseWriter, r *http.Request, operation string) (string, identity.Account, bool) {
	query := r.URL.Query()
	if r.Header.Get("X-Access-Token") == "" && s.identity.Token() != "" {
		if err := checkSignature(s.identity.Token(), operation, query); err != nil {
			fail(w, http.StatusUnauthorized, err.Error())
			return "", identity.Account{}, false
		}
	}
	account, err := s.fileAccount(r, query.Get("username"))
	if err != nil {
		fail(w, http.StatusUnauthorized, err.Error(), unknownUser...)
		return "", account, false
	}
	path := query.Get("path")
	if path == "" && operation == "read" {
		fail(w, http.StatusBadRequest, "the request has no path")
		return "", account, false
	}
	if path != "" {
		path = resolve(path, account)
	}
	return path, account, true
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return http.StatusForbidden
	case isBadPath(err), errors.Is(err, syscall.ELOOP):
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// isBadPath reports whether no file can have the path of a request: it leads through a file, or has a NUL or a long name.
func isBadPath(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG)
}

// reason returns an error's text without the operation and the path that os adds.
func reason(err error) string {
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		return inPath.Err.Error()
	}
	return err.Error()
}
