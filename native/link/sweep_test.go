package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	keptUID    = "11111111-2222-3333-4444-555555555555"
	deletedUID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
)

// cacheOf makes the caches of two namespaces, and what no sweep may touch.
func cacheOf(t *testing.T) (directory, outside string) {
	t.Helper()
	base := t.TempDir()
	directory, outside = filepath.Join(base, "cache"), filepath.Join(base, "outside")
	for _, path := range []string{outside, filepath.Join(directory, keptUID, "boot"), filepath.Join(directory, deletedUID, "boot", "layer"),
		filepath.Join(directory, deletedUID+".1"), filepath.Join(directory, "other")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, path := range map[string]string{
		filepath.Join(directory, deletedUID, "boot", "link"):             outside,
		filepath.Join(directory, "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"): outside,
	} {
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return directory, outside
}

func namesIn(t *testing.T, directory string) []string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// apiOf answers with the UIDs of one page each.
func apiOf(t *testing.T, status int, pages ...string) *namespaceAPI {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" || r.URL.Path != "/api/v1/namespaces" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		at := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &at)
		next := ""
		if at+1 < len(pages) {
			next = fmt.Sprint(at + 1)
		}
		_, _ = fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[{"metadata":{"name":"a","uid":%q}}]}`, next, pages[at])
	}))
	t.Cleanup(server.Close)
	directory := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, content := range map[string]string{"token": "token\n", "ca.crt": string(certificate)} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &namespaceAPI{base: server.URL, directory: directory}
}

func TestASweepRemovesTheCachesOfDeletedNamespacesOnly(t *testing.T) {
	directory, outside := cacheOf(t)
	before := namesIn(t, directory)
	removed, err := sweep(context.Background(), directory, apiOf(t, 200, "other", keptUID).uids)
	if err != nil || !slices.Equal(removed, []string{filepath.Join(directory, deletedUID)}) {
		t.Fatalf("removed %v: %v", removed, err)
	}
	left := slices.DeleteFunc(before, func(name string) bool { return name == deletedUID })
	if names := namesIn(t, directory); !slices.Equal(names, left) {
		t.Errorf("%v are left", names)
	}
	if names := namesIn(t, outside); !slices.Equal(names, []string{"file"}) {
		t.Errorf("outside is %v", names)
	}
}

func TestASweepRemovesNothingWithoutAListOfNamespaces(t *testing.T) {
	for title, uids := range map[string]func(context.Context) (map[string]bool, error){
		"no server":       (&namespaceAPI{base: "https://127.0.0.1:1", directory: t.TempDir()}).uids,
		"a refusal":       apiOf(t, 403, keptUID).uids,
		"an empty list":   apiOf(t, 200, "").uids,
		"a part of it":    apiOf(t, 200, keptUID, "").uids,
		"another failure": func(context.Context) (map[string]bool, error) { return nil, errors.New("failed") },
	} {
		t.Run(title, func(t *testing.T) {
			directory, _ := cacheOf(t)
			before := namesIn(t, directory)
			if removed, err := sweep(context.Background(), directory, uids); err == nil || len(removed) > 0 {
				t.Errorf("removed %v: %v", removed, err)
			}
			if names := namesIn(t, directory); !slices.Equal(names, before) {
				t.Errorf("%v are left", names)
			}
		})
	}
}

// A namespace that is created during a sweep is in the list, because its directory is read first.
func TestASweepKeepsTheCacheOfANamespaceThatIsCreatedMeanwhile(t *testing.T) {
	directory, _ := cacheOf(t)
	created := "99999999-bbbb-cccc-dddd-eeeeeeeeeeee"
	_, err := sweep(context.Background(), directory, func(context.Context) (map[string]bool, error) {
		return map[string]bool{keptUID: true}, os.Mkdir(filepath.Join(directory, created), 0o700)
	})
	if _, lost := os.Stat(filepath.Join(directory, created)); err != nil || lost != nil {
		t.Errorf("the cache: %v, the sweep: %v", lost, err)
	}
}
