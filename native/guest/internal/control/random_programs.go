package control

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// mostPrograms bounds the answer, and mostProcesses and mostProcessBytes the time to find it.
	mostPrograms     = 8
	mostProcesses    = 2_000
	mostProcessBytes = 1 << 20
	mostNameBytes    = 64
	// reseedsVariable lists programs that seed their generators again in a clone, separated by commas.
	reseedsVariable = "RAMET_RESEEDS"
)

// seeded are programs with a generator of random numbers that is seeded once.
var seeded = []string{"node", "nodejs", "bun", "deno", "python", "pypy", "ruby", "php", "java", "R"}

// randomPrograms responds with the programs whose clones repeat random numbers, because a generator in their memory was seeded already.
// It knows runtimes by their names, and OpenSSL by its library. With a hook, the author of the image has taken care of it.
func (s *Server) randomPrograms(w http.ResponseWriter, r *http.Request) {
	found := []string{}
	if len(s.hooks()) == 0 {
		found = programsWithSeeds(r.Context(), filepath.Join(s.Root, "/proc"))
	}
	reply(w, http.StatusOK, map[string][]string{"programs": found})
}

func programsWithSeeds(ctx context.Context, proc string) []string {
	directory, err := os.Open(proc)
	if err != nil {
		return []string{}
	}
	defer func() { _ = directory.Close() }()
	entries, _ := directory.Readdirnames(mostProcesses)
	found := map[string]bool{}
	for _, entry := range entries {
		if ctx.Err() != nil {
			break
		}
		if _, err := strconv.Atoi(entry); err != nil {
			continue
		}
		if name := programWithSeed(filepath.Join(proc, entry)); name != "" {
			found[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(found))
	return names[:min(len(names), mostPrograms)]
}

// programWithSeed returns the name of the program of a process if it has a seed: that of a runtime without its version. Empty: the
// program has none, or has ended.
func programWithSeed(process string) string {
	executable, err := os.Readlink(filepath.Join(process, "exe"))
	if err != nil {
		return ""
	}
	name := filepath.Base(strings.TrimSuffix(executable, " (deleted)"))
	name = strings.Map(printable, name[:min(len(name), mostNameBytes)])
	family, _, _ := strings.Cut(name, "-")
	if family = strings.TrimRight(family, "0123456789."); slices.Contains(seeded, family) {
		name = family
	}
	if slices.Contains(reseeding(process), name) {
		return ""
	}
	if slices.Contains(seeded, name) || bytes.Contains(readStart(filepath.Join(process, "maps")), []byte("/libcrypto.so")) {
		return name
	}
	return ""
}

// printable keeps what names of programs usually consist of: the cell accepts nothing else.
func printable(char rune) rune {
	isLetter := 'a' <= char && char <= 'z' || 'A' <= char && char <= 'Z' || '0' <= char && char <= '9'
	if isLetter || strings.ContainsRune("_.+-", char) {
		return char
	}
	return '?'
}

func reseeding(process string) []string {
	for _, variable := range bytes.Split(readStart(filepath.Join(process, "environ")), []byte{0}) {
		if names, ok := bytes.CutPrefix(variable, []byte(reseedsVariable+"=")); ok {
			return strings.Split(string(names), ",")
		}
	}
	return nil
}

func readStart(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	text, _ := io.ReadAll(io.LimitReader(file, mostProcessBytes))
	return text
}
