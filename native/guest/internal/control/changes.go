package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
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
	most, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("most"), "0"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "most is not a number of bytes")
		return
	}
	syscall.Sync()
	w.Header().Set("Trailer", changesTrailer)
	w.Header().Set("Content-Type", "application/x-tar")
	leave := []string{strings.TrimPrefix(s.StateDir, "/"), strings.TrimPrefix(s.MarkDir, "/"), ".ramet"}
	counts, err := layers.Write(w, base, layers.Options{
		Root: "/", Mounts: mounts, Leave: leave, MostBytes: most, Overlay: true,
	})
	answer := changesAnswer{Counts: counts}
	if err != nil {
		answer.Message, answer.TooLarge = err.Error(), errors.Is(err, layers.ErrTooLarge)
	}
	text, _ := json.Marshal(answer)
	w.Header().Set(changesTrailer, string(text))
}
