package control

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ramet.dev/native/guest/internal/layers"
)

// changesTrailer has what the layer contains: JSON, after the whole layer. Without it the layer is incomplete.
const changesTrailer = "Ramet-Layer"

type changesAnswer struct {
	layers.Counts
	// Message is why the layer is incomplete.
	Message string `json:"message,omitempty"`
	// TooLarge tells that it would have more bytes than requested.
	TooLarge bool `json:"tooLarge,omitempty"`
}

// unlisted responds with directories whose entries the list has to have too. Their names are bytes: each is a character.
func (s *Server) unlisted(w http.ResponseWriter, base layers.Base, options layers.Options) {
	names, err := base.Unlisted(options)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal", err.Error())
		return
	}
	for index, name := range names {
		characters := make([]rune, len(name))
		for at := range len(name) {
			characters[at] = rune(name[at])
		}
		names[index] = string(characters)
	}
	reply(w, http.StatusOK, map[string][]string{"directories": names})
}

// changes responds with a layer that has what was changed in the root since the list in the request.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	base, err := layers.ReadBase(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "reading the list of the base failed: "+err.Error())
		return
	}
	mounts, err := layers.MountsBelowRoot()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal", "reading the mounts failed: "+err.Error())
		return
	}
	// gVisor mounts a file system of its own at an empty /tmp. Programs leave files there.
	if slices.Contains(r.URL.Query()["with"], "tmp") {
		mounts = slices.DeleteFunc(mounts, func(path string) bool { return path == "tmp" })
	}
	leave := []string{strings.TrimPrefix(s.StateDir, "/"), strings.TrimPrefix(s.MarkDir, "/"), ".ramet"}
	options := layers.Options{Root: "/", Mounts: mounts, Leave: leave}
	if r.URL.Query().Has("unlisted") {
		s.unlisted(w, base, options)
		return
	}
	most, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("most"), "0"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "most is not a number of bytes")
		return
	}
	resume, err := stopOthers(r.Context(), filepath.Join(s.Root, "/proc"))
	defer resume()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal", "stopping the programs failed: "+err.Error())
		return
	}
	syscall.Sync()
	w.Header().Set("Trailer", changesTrailer)
	w.Header().Set("Content-Type", "application/x-tar")
	options.MostBytes = most
	to := &runs{to: w}
	if r.URL.Query().Get("zeros") == "counted" {
		w.Header().Set("Ramet-Zeros", "counted")
		to.counts = true
	}
	counts, err := layers.Write(to, base, options)
	err = errors.Join(err, to.flush())
	answer := changesAnswer{Counts: counts}
	if err != nil {
		answer.Message, answer.TooLarge = err.Error(), errors.Is(err, layers.ErrTooLarge)
	}
	text, _ := json.Marshal(answer)
	w.Header().Set(changesTrailer, string(text))
}

// runs writes zeros as their number if it counts them: gVisor does not say where the holes of a sparse file are, and its network is
// slower than reading them. Each run begins with a number of 4 bytes, the length of the data that follows, or with zeroRun the number
// of zeros that are not sent.
type runs struct {
	to     io.Writer
	counts bool
	zeros  uint32
}

const (
	zeroRun     = 1 << 31
	longestRun  = 1 << 30
	leastOfRuns = 4096
)

func (r *runs) Write(data []byte) (int, error) {
	if !r.counts || len(data) == 0 {
		return r.to.Write(data)
	}
	if len(data) >= leastOfRuns && len(data) < longestRun && data[0] == 0 && bytes.Equal(data[1:], data[:len(data)-1]) {
		r.zeros += uint32(len(data))
		if r.zeros < longestRun {
			return len(data), nil
		}
		return len(data), r.flush()
	}
	if err := r.flush(); err != nil {
		return 0, err
	}
	if err := r.head(uint32(len(data))); err != nil {
		return 0, err
	}
	return r.to.Write(data)
}

func (r *runs) flush() error {
	if r.zeros == 0 {
		return nil
	}
	err := r.head(zeroRun | r.zeros)
	r.zeros = 0
	return err
}

func (r *runs) head(length uint32) error {
	_, err := r.to.Write(binary.BigEndian.AppendUint32(nil, length))
	return err
}
