package rpc

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"ramet.dev/native/guest/internal/pb"
	"ramet.dev/native/internal/fuzzcheck"
)

type note struct {
	Text  string   `json:"text" pb:"1"`
	Lines []string `json:"lines" pb:"2"`
}

// FuzzUnary sends a call whose response repeats the request.
func FuzzUnary(f *testing.F) {
	f.Add("application/json", "", "", []byte(`{"text":"a"}`))
	f.Add("application/proto", "gzip", "5", gzipped(f, []byte("\x0a\x01a")))
	f.Add("application/json; charset=utf-8", "identity", "-1", []byte(" "))
	f.Add("text/plain", "br", "99999999999", []byte("x"))
	handler := Unary(func(_ *http.Request, request *note) (*note, error) { return request, nil })
	f.Fuzz(func(t *testing.T, kind, encoding, timeout string, body []byte) {
		fuzzcheck.Input(t, func() {
			response := serve(handler, body, map[string]string{
				"Content-Type": kind, "Content-Encoding": encoding, "Connect-Timeout-Ms": timeout,
			})
			switch response.Code {
			case http.StatusUnsupportedMediaType:
			case http.StatusOK:
				codec, _ := codecFor(response.Header().Get("Content-Type"), "application/")
				if err := codec.unmarshal(response.Body.Bytes(), new(note)); err != nil {
					t.Errorf("the response is %q: %v", response.Body, err)
				}
			default:
				checkError(t, response.Body.Bytes())
			}
		})
	})
}

// FuzzStream sends the body of a client stream, of which the handler takes every message.
func FuzzStream(f *testing.F) {
	one := enveloped(0, []byte(`{"text":"a"}`))
	f.Add("application/connect+json", "", append(one, enveloped(0, []byte(`{"lines":["b","c"]}`))...))
	f.Add("application/connect+proto", "gzip", enveloped(flagCompressed, gzipped(f, []byte("\x0a\x01a"))))
	f.Add("application/connect+json", "", one[:8])
	f.Add("application/connect+json", "", enveloped(flagEnd, []byte("{}")))
	f.Add("application/connect+json", "br", enveloped(flagCompressed, nil))
	f.Add("application/connect+proto", "", []byte("\x00\xff\xff\xff\xff"))
	f.Add("application/connect+proto", "", []byte("\x00\x00\x3f\xff\xff"))
	handlers := []http.Handler{
		ClientStream(func(_ *http.Request, next func() (*note, error)) (*note, error) {
			for {
				if _, err := next(); errors.Is(err, io.EOF) {
					return &note{}, nil
				} else if err != nil {
					return nil, err
				}
			}
		}),
		ServerStream(func(_ *http.Request, request *note, out *Sender[note]) error { return out.Send(request) }),
	}
	f.Fuzz(func(t *testing.T, kind, encoding string, body []byte) {
		for _, handler := range handlers {
			fuzzcheck.Input(t, func() {
				response := serve(handler, body, map[string]string{"Content-Type": kind, "Connect-Content-Encoding": encoding})
				if response.Code == http.StatusUnsupportedMediaType {
					return
				}
				checkStream(t, response.Body.Bytes())
			})
		}
	})
}

// checkStream fails unless the response is a stream with exactly one end, at its end.
func checkStream(t *testing.T, stream []byte) {
	t.Helper()
	for len(stream) >= 5 {
		length := int(binary.BigEndian.Uint32(stream[1:]))
		if len(stream) < 5+length {
			break
		}
		flags, body := stream[0], stream[5:5+length]
		stream = stream[5+length:]
		if flags&flagEnd == 0 {
			continue
		}
		if len(stream) > 0 || !json.Valid(body) {
			t.Errorf("the stream ends with %q and then %q", body, stream)
		}
		return
	}
	t.Errorf("the stream has no end: %q", stream)
}

func checkError(t *testing.T, body []byte) {
	t.Helper()
	var failure Error
	if err := json.Unmarshal(body, &failure); err != nil || httpStatus[failure.Code] == 0 || failure.Code == Unknown || failure.Code == Internal {
		t.Errorf("the error is %q: %v", body, err)
	}
}

// FuzzTypes reads the values that protobuf's JSON form has and Go's does not.
func FuzzTypes(f *testing.F) {
	for _, seed := range []string{
		`"aGk="`, `"aGk"`, `"_-8"`, `12`, `"-9223372036854775808"`, `"1e3"`, `null`, `"2026-01-01T00:00:00Z"`, `"0000-01-01T00:00:00Z"`, `""`, `{}`,
	} {
		f.Add([]byte(seed), int64(253402300800), int32(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, seconds int64, nanos int32) {
		fuzzcheck.Input(t, func() {
			var values struct {
				Bytes pb.Bytes
				Int64 pb.Int64
				Time  pb.Timestamp
			}
			for _, value := range []any{&values.Bytes, &values.Int64, &values.Time} {
				if json.Unmarshal(text, value) != nil {
					continue
				}
				if _, err := json.Marshal(value); err != nil {
					t.Errorf("%q was read, but cannot be written: %v", text, err)
				}
			}
			at := time.Unix(seconds, int64(nanos))
			if _, err := json.Marshal(pb.TimestampOf(at)); err != nil {
				t.Errorf("the time %s cannot be written: %v", at, err)
			}
		})
	})
}

func serve(handler http.Handler, body []byte, header map[string]string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

func enveloped(flags byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(body))), body...)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zipper := gzip.NewWriter(&out)
	if _, err := zipper.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zipper.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
