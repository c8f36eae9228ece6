package rpc

import (
	"bytes"
	"encoding/json"
	"strings"

	"ramet.dev/native/guest/internal/pb"
)

type codec struct {
	name      string
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

var codecs = map[string]codec{
	"json":  {"json", json.Marshal, unmarshalJSON},
	"proto": {"proto", pb.Marshal, pb.Unmarshal},
}

// unmarshalJSON reads an empty body as an empty message, as other Connect servers do.
func unmarshalJSON(data []byte, message any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return json.Unmarshal(data, message)
}

// codecFor returns the codec of a content type, such as `application/json; charset=utf-8`, with the given prefix.
func codecFor(contentType, prefix string) (codec, bool) {
	mediaType, _, _ := strings.Cut(contentType, ";")
	name, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(mediaType)), prefix)
	if !ok {
		return codec{}, false
	}
	found, ok := codecs[name]
	return found, ok
}
