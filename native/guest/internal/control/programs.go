package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	// mostSeeded and mostPrograms bound the answers, and mostProcesses and mostProcessBytes the time to find them.
	mostSeeded       = 8
	mostPrograms     = 20
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
	found := map[string]bool{}
	// Some of the programs are better than none.
	processes, _ := processesIn(proc)
	for _, process := range processes {
		if ctx.Err() != nil {
			break
		}
		if name := programWithSeed(process); name != "" {
			found[name] = true
		}
	}
	names := sorted(found)
	return names[:min(len(names), mostSeeded)]
}

// Programs is what runs in the sandbox besides the guest.
type Programs struct {
	Processes int      `json:"processes"`
	Names     []string `json:"names"`
	// Others is the number of names that are left out.
	Others int `json:"others,omitempty"`
}

// programs responds with the programs that run. Their arguments can have secrets, so they have only names.
func (s *Server) programs(w http.ResponseWriter, r *http.Request) {
	// The entrypoint starts shortly after the sandbox has its identity.
	if s.Identity.Generation() > 0 {
		s.Entrypoint.Start()
	}
	answer, err := programsIn(r.Context(), filepath.Join(s.Root, "/proc"), strconv.Itoa(os.Getpid()))
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal", "listing programs failed: "+err.Error())
		return
	}
	reply(w, http.StatusOK, answer)
}

// programsIn returns an error rather than a part of the programs.
func programsIn(ctx context.Context, proc, guest string) (Programs, error) {
	found := map[string]bool{}
	answer := Programs{}
	processes, err := processesIn(proc)
	if err != nil {
		return answer, err
	}
	for _, process := range processes {
		if err := ctx.Err(); err != nil {
			return answer, err
		}
		if name := programOf(process); name != "" && filepath.Base(process) != guest {
			answer.Processes++
			found[name] = true
		}
	}
	names := sorted(found)
	shown := min(len(names), mostPrograms)
	answer.Names, answer.Others = names[:shown:shown], len(names)-shown
	return answer, nil
}

// sorted returns an empty list, which JSON has as [], if there are no names.
func sorted(names map[string]bool) []string {
	list := slices.AppendSeq([]string{}, maps.Keys(names))
	slices.Sort(list)
	return list
}

// processesIn returns the directories of the first processes, and an error if these may not be all.
func processesIn(proc string) ([]string, error) {
	directory, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = directory.Close() }()
	entries, err := directory.Readdirnames(mostProcesses + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(entries) > mostProcesses {
		err = fmt.Errorf("there are more than %d", mostProcesses)
	}
	var processes []string
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry); err == nil {
			processes = append(processes, filepath.Join(proc, entry))
		}
	}
	return processes, err
}

// programOf returns the name of the program of a process. Empty: it has ended.
func programOf(process string) string {
	executable, err := os.Readlink(filepath.Join(process, "exe"))
	if err != nil {
		return ""
	}
	name := filepath.Base(strings.TrimSuffix(executable, " (deleted)"))
	return strings.Map(printable, name[:min(len(name), mostNameBytes)])
}

// programWithSeed returns the name of the program of a process if it has a seed: that of a runtime without its version. Empty: the
// program has none, or has ended.
func programWithSeed(process string) string {
	name := programOf(process)
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
