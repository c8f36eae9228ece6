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
	syscall.Sync()
	w.Header().Set("Trailer", changesTrailer)
	w.Header().Set("Content-Type", "application/x-tar")
	options.MostBytes = most
	counts, err := layers.Write(w, base, options)
	answer := changesAnswer{Counts: counts}
	if err != nil {
		answer.Message, answer.TooLarge = err.Error(), errors.Is(err, layers.ErrTooLarge)
	}
	text, _ := json.Marshal(answer)
	w.Header().Set(changesTrailer, string(text))
}
