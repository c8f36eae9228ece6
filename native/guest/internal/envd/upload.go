package envd

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ramet.dev/native/guest/internal/identity"
)

type writtenFile struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// upload is a request to write files.
type upload struct {
	account identity.Account
	// path is the file that the query names; empty if it names none.
	path string
	// metadata is for each file of the request.
	metadata map[string]string
	written  []writtenFile
}

// upload writes one file from the body, or several from the `file` parts of a form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	path, account, ok := s.filePath(w, r, "write")
	if !ok {
		return
	}
	u := upload{account: account, path: path, metadata: metadataIn(r.Header), written: []writtenFile{}}
	if err := u.read(r); err != nil {
		fail(w, uploadStatus(err), "writing: "+err.Error())
		return
	}
	reply(w, u.written)
}

func (u *upload) read(r *http.Request) error {
	if err := checkMetadata(u.metadata); err != nil {
		return badRequest{err}
	}
	body, err := unzipped(r)
	if err != nil {
		return badRequest{fmt.Errorf("reading the body: %w", err)}
	}
	kind, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		large := bufio.NewReaderSize(body, pieceBytes)
		return u.writeForm(multipart.NewReader(large, parameters["boundary"]))
	case u.path == "":
		return badRequest{errors.New("the request has no path")}
	default:
		return u.write(u.path, body)
	}
}

// badRequest marks an error caused by the caller.
type badRequest struct{ error }

func (u *upload) writeForm(form *multipart.Reader) error {
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			if len(u.written) == 0 {
				return badRequest{errors.New("the form has no part named file")}
			}
			return nil
		}
		if err != nil {
			return badRequest{err}
		}
		if part.FormName() != "file" {
			continue
		}
		target := u.path
		if target == "" {
			// FileName returns only the last part of the path, but callers send a whole path.
			_, parameters, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if parameters["filename"] == "" {
				return badRequest{errors.New("a part of the form has no file name, and the request has no path")}
			}
			target = resolve(parameters["filename"], u.account)
		}
		if err := u.write(target, part); err != nil {
			return err
		}
	}
}

// write writes in place, so that programs that have the file open or watch it see the change.
func (u *upload) write(path string, body io.Reader) error {
	for _, file := range u.written {
		if file.Path == path {
			return badRequest{fmt.Errorf("the form has two files for %s; the first one was written", path)}
		}
	}
	if isDirectory(path) {
		return badRequest{errors.New(path + " is a directory")}
	}
	if err := makeParents(filepath.Dir(path), u.account.User); err != nil {
		return err
	}
	isNew := !exists(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	if err = copyInPieces(file, body); err == nil {
		err = setMetadata(file, u.metadata)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	// As with envd, a file belongs to the client's user who wrote it last. Ramet's own tools leave files of the image to their owners.
	if err == nil && (isNew || !u.account.IsContainer) {
		err = giveTo(path, u.account.User)
	}
	if err == nil {
		u.written = append(u.written, writtenFile{Path: path, Name: filepath.Base(path), Type: "file", Metadata: u.metadata})
	}
	return err
}

// pieceBytes is the size of the pieces in which a body is read and written. A system call costs much in gVisor, and the
// reader of a form passes on pieces of 4 KiB.
const pieceBytes = 128 << 10

// copyInPieces writes what has arrived also if the body ends with an error.
func copyInPieces(file io.Writer, body io.Reader) error {
	// The struct hides methods of the file that would copy in smaller pieces.
	pieces := bufio.NewWriterSize(struct{ io.Writer }{file}, pieceBytes)
	_, err := pieces.ReadFrom(body)
	if flushed := pieces.Flush(); err == nil {
		err = flushed
	}
	return err
}

func unzipped(r *http.Request) (io.Reader, error) {
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		return gzip.NewReader(r.Body)
	default:
		return nil, fmt.Errorf("its encoding %q is not supported; supported are gzip and identity", encoding)
	}
}

func uploadStatus(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTSUP):
		return http.StatusBadRequest
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage
	default:
		return statusOf(err)
	}
}
