package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileIsCompressedForCallersWhoAskForIt(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	content := strings.Repeat("0123456789", 10_000)
	path := filepath.Join(g.dir, "file.html")
	must(t, os.WriteFile(path, []byte(content), 0o644))
	for name, test := range map[string]struct {
		method string
		header []string
		// encoding is that of the response; an error has a status.
		encoding string
		status   int
	}{
		"gzip alone, as SDKs ask":        {"GET", []string{"Accept-Encoding", "gzip"}, "gzip", 200},
		"preferred":                      {"GET", []string{"Accept-Encoding", "identity;q=0.5, GZIP;q=0.8"}, "gzip", 200},
		"nothing else":                   {"GET", []string{"Accept-Encoding", "br, gzip, *;q=0"}, "gzip", 200},
		"all that an HTTP library knows": {"GET", []string{"Accept-Encoding", "gzip, deflate, br"}, "", 200},
		"anything":                       {"GET", []string{"Accept-Encoding", "*"}, "", 200},
		"plain preferred":                {"GET", []string{"Accept-Encoding", "gzip;q=0.5, identity"}, "", 200},
		"refused":                        {"GET", []string{"Accept-Encoding", "gzip;q=0"}, "", 200},
		"a range":                        {"GET", []string{"Accept-Encoding", "gzip", "Range", "bytes=0-9"}, "", 206},
		"a range, but only compressed":   {"GET", []string{"Accept-Encoding", "gzip, identity;q=0", "Range", "bytes=0-9"}, "", 406},
		"only the headers":               {"HEAD", []string{"Accept-Encoding", "gzip"}, "gzip", 200},
		"nothing that exists":            {"GET", []string{"Accept-Encoding", "br, identity;q=0"}, "", 406},
	} {
		request, err := http.NewRequest(test.method, g.client+"/files?path="+url.QueryEscape(path), nil)
		must(t, err)
		request.Header.Set("X-Access-Token", "secret")
		for i := 0; i < len(test.header); i += 2 {
			request.Header.Set(test.header[i], test.header[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != test.status || response.Header.Get("Content-Encoding") != test.encoding {
			t.Errorf("%s: %d %v", name, response.StatusCode, response.Header)
		}
		if test.method == "HEAD" || test.status != 200 {
			continue
		}
		if kind := response.Header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
			t.Errorf("%s: %s", name, kind)
		}
		if test.encoding == "gzip" {
			if len(body) > len(content)/10 {
				t.Errorf("%s: %d bytes", name, len(body))
			}
			zipped, err := gzip.NewReader(bytes.NewReader(body))
			must(t, err)
			body, err = io.ReadAll(zipped)
			must(t, err)
		}
		if string(body) != content {
			t.Errorf("%s: %d other bytes", name, len(body))
		}
	}
}

func TestUploadIsRejectedIfItCannotBeRead(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	query := "/files?path=" + url.QueryEscape(filepath.Join(g.dir, "file"))
	for encoding, want := range map[string]int{"br": 400, "gzip": 400, "identity": 200} {
		status, text := g.http("POST", query, strings.NewReader("not compressed"), "X-Access-Token", "secret", "Content-Encoding", encoding)
		if status != want {
			t.Errorf("%s: %d %s", encoding, status, text)
		}
	}
}
