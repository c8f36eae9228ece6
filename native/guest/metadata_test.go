package main

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"ramet.dev/native/guest/internal/envdtest/filesystempb"
)

func TestMetadataOfFilesIsKept(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	path := filepath.Join(g.dir, "described")
	if err := syscall.Setxattr(g.dir, "user.e2b.probe", []byte("x"), 0); err != nil {
		t.Skip("the file system has no extended attributes:", err)
	}
	upload := func(headers ...string) string {
		headers = append(headers, "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
		status, text := g.http("POST", "/files?path="+url.QueryEscape(path), strings.NewReader("1"), headers...)
		if status != 200 {
			t.Fatal(status, text)
		}
		return text
	}
	if text := upload("X-Metadata-Author", "ada", "X-Metadata-Purpose", "test"); !strings.Contains(text, `"metadata":{"author":"ada","purpose":"test"}`) {
		t.Error(text)
	}
	long := strings.Repeat("v", 1000)
	must(t, syscall.Setxattr(path, "user.e2b.long", []byte(long), 0))
	must(t, syscall.Setxattr(path, "user.other", []byte("x"), 0))
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		client := g.filesystem(option)
		stat, err := client.Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: path}))
		must(t, err)
		want := map[string]string{"author": "ada", "purpose": "test", "long": long}
		if got := stat.Msg.GetEntry().GetMetadata(); !maps.Equal(got, want) {
			t.Error(got)
		}
		listed, err := client.ListDir(t.Context(), connect.NewRequest(&filesystempb.ListDirRequest{Path: g.dir}))
		must(t, err)
		for _, entry := range listed.Msg.GetEntries() {
			if entry.GetPath() == path && !maps.Equal(entry.GetMetadata(), want) {
				t.Error(entry)
			}
		}
	})
	// What clients cannot read does not hide the rest.
	must(t, syscall.Setxattr(path, "user.e2b.bytes", []byte("\xff\x00"), 0))
	must(t, syscall.Setxattr(path, "user.e2b.\xff", []byte("x"), 0))
	bothCodecs(t, func(t *testing.T, option connect.ClientOption) {
		stat, err := g.filesystem(option).Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: path}))
		must(t, err)
		if got := len(stat.Msg.GetEntry().GetMetadata()); got != 3 {
			t.Error(stat.Msg)
		}
	})
	// The metadata of earlier content does not describe the new one.
	upload("X-Metadata-Author", "grace")
	stat, err := g.filesystem().Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: path}))
	must(t, err)
	if got := stat.Msg.GetEntry().GetMetadata(); !maps.Equal(got, map[string]string{"author": "grace"}) {
		t.Error(got)
	}
}

func TestMetadataThatCannotBeStoredIsRejectedBeforeTheFileIsWritten(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	path := filepath.Join(g.dir, "described")
	for name, header := range map[string][]string{
		"a long name":            {"X-Metadata-" + strings.Repeat("n", 247), "v"},
		"too much":               {"X-Metadata-A", strings.Repeat("v", 2100), "X-Metadata-B", strings.Repeat("v", 2100)},
		"other than ASCII":       {"X-Metadata-A", "\u00e4"},
		"with control character": {"X-Metadata-A", "a\tb"},
	} {
		header = append(header, "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
		status, text := g.http("POST", "/files?path="+url.QueryEscape(path), strings.NewReader("1"), header...)
		if status != 400 || !strings.Contains(text, "metadata") {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%s: the file was written", name)
		}
	}
}

func TestUploadWithMetadataFailsWhereItCannotBeStored(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	const path = "/proc/self/oom_score_adj"
	upload := func(header ...string) (int, string) {
		header = append(header, "X-Access-Token", "secret", "Content-Type", "application/octet-stream")
		return g.http("POST", "/files?path="+path, strings.NewReader("1000"), header...)
	}
	if status, text := upload(); status != 200 {
		t.Fatal(status, text)
	}
	if status, text := upload("X-Metadata-A", "v"); status != 400 || !strings.Contains(text, "no extended attributes") {
		t.Error(status, text)
	}
}
