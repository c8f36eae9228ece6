package envd

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"ramet.dev/native/guest/internal/users"
)

type writtenFile struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// upload writes one file from the body, or several from the `file` parts of a form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	path, user, ok := s.filePath(w, r, "write")
	if !ok {
		return
	}
	body, err := unzipped(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "reading the body: "+err.Error())
		return
	}
	kind, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var written []writtenFile
	switch {
	case kind == "multipart/form-data":
		written, err = s.writeForm(multipart.NewReader(body, parameters["boundary"]), path, user)
	case path == "":
		err = badRequest{errors.New("the request has no path")}
	default:
		written, err = writeFile(path, body, user)
	}
	if err == nil {
		written, err = describeUploads(written, r.Header)
	}
	if err != nil {
		fail(w, uploadStatus(err), "writing: "+err.Error())
		return
	}
	reply(w, written)
}

// badRequest marks an error caused by the caller.
type badRequest struct{ error }

func (s *Server) writeForm(form *multipart.Reader, path string, user users.User) ([]writtenFile, error) {
	written := []writtenFile{}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			if len(written) == 0 {
				return nil, badRequest{errors.New("the form has no part named file")}
			}
			return written, nil
		}
		if err != nil {
			return nil, badRequest{err}
		}
		if part.FormName() != "file" {
			continue
		}
		target := path
		if target == "" {
			// FileName returns only the last part of the path, but callers send a whole path.
			_, parameters, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if parameters["filename"] == "" {
				return nil, badRequest{errors.New("a part of the form has no file name, and the request has no path")}
			}
			target = resolve(parameters["filename"], s.identity.Workdir(user), user)
		}
		files, err := writeFile(target, part, user)
		if err != nil {
			return nil, err
		}
		written = append(written, files...)
	}
}

// writeFile writes in place, so that programs that have the file open or watch it see the change.
func writeFile(path string, body io.Reader, user users.User) ([]writtenFile, error) {
	if isDirectory(path) {
		return nil, badRequest{errors.New(path + " is a directory")}
	}
	if err := makeParents(filepath.Dir(path), user); err != nil {
		return nil, err
	}
	isNew := !exists(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(file, body)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil && isNew {
		err = giveTo(path, user)
	}
	if err != nil {
		return nil, err
	}
	return []writtenFile{{Path: path, Name: filepath.Base(path), Type: "file"}}, nil
}

func describeUploads(files []writtenFile, header http.Header) ([]writtenFile, error) {
	metadata := metadataIn(header)
	for i := range files {
		if err := setMetadata(files[i].Path, metadata); err != nil {
			return nil, err
		}
		files[i].Metadata = metadata
	}
	return files, nil
}

func unzipped(r *http.Request) (io.Reader, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return r.Body, nil
	}
	return gzip.NewReader(r.Body)
}

func uploadStatus(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return http.StatusBadRequest
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return http.StatusInsufficientStorage
	default:
		return statusOf(err)
	}
}
