package envd

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ramet.dev/native/internal/fuzzcheck"
)

// FuzzCompose reads the body of /files/compose. It composes nothing: that would remove files of the machine that runs the test.
func FuzzCompose(f *testing.F) {
	for _, seed := range []string{
		`{"source_paths":["/a","~/b"],"destination":"c","username":"user"}`, `{"source_paths":[""],"destination":"c"}`,
		`{"source_paths":null,"destination":"c"}`, `{"source_paths":["a"]}`, `[]`, `null`, `{"source_paths":{"0":"a"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fuzzcheck.Input(t, func() {
			request, err := readCompose(strings.NewReader(body))
			if err != nil {
				return
			}
			// An empty path would be the working directory.
			if request.Destination == "" || len(request.SourcePaths) == 0 || slices.Contains(request.SourcePaths, "") {
				t.Errorf("%q was read as %+v", body, request)
			}
		})
	})
}

// FuzzMetadata reads headers of an upload. What is accepted can be stored and read again.
func FuzzMetadata(f *testing.F) {
	f.Add("X-Metadata-Author", "ada", "X-Metadata-Purpose", "")
	f.Add("X-Metadata-", "x", "X-Metadata-A", "\t")
	f.Add("X-Metadata-"+strings.Repeat("n", 300), "x", "X-Metadata-B", strings.Repeat("v", 5000))
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, oneName, oneValue, otherName, otherValue string) {
		fuzzcheck.Input(t, func() {
			metadata := metadataIn(http.Header{oneName: {oneValue}, otherName: {otherValue, "ignored"}})
			if checkMetadata(metadata) != nil {
				return
			}
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := setMetadata(file, metadata); uploadStatus(err) == http.StatusBadRequest {
				return // the file system has no attributes
			} else if err != nil {
				t.Fatalf("%q: %v", metadata, err)
			}
			read := metadataOf(path)
			for name, value := range metadata {
				if read[name] != value {
					t.Errorf("%q was stored as %q", metadata, read)
				}
			}
		})
	})
}

// FuzzAcceptEncoding chooses the encoding of a response. A caller who refuses gzip never gets it.
func FuzzAcceptEncoding(f *testing.F) {
	for _, seed := range []string{"gzip", "gzip;q=0", "*", "*;q=0", "identity;q=0, gzip", "gzip;q=NaN", "gzip;q=1e999, identity;q=-1", ",;=,q"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		fuzzcheck.Input(t, func() {
			accepted := acceptedEncodings(accept)
			if accepted.gzip && !strings.Contains(strings.ToLower(accept), "gzip") && !strings.Contains(accept, "*") {
				t.Errorf("%q: %+v", accept, accepted)
			}
			if accepted.prefersGzip && !accepted.gzip {
				t.Errorf("%q: %+v", accept, accepted)
			}
			if accepted := acceptedEncodings(accept + ", gzip;q=0"); accepted.gzip || accepted.prefersGzip {
				t.Errorf("%q and no gzip: %+v", accept, accepted)
			}
		})
	})
}
