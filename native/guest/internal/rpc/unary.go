// Package rpc serves the Connect protocol (connectrpc.com/docs/protocol): unary calls, server streams and client streams,
// in JSON and in protobuf's binary form, over HTTP/1.1.
package rpc

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"ramet.dev/native/guest/internal/awake"
)

// maxMessageBytes limits one message, so that a caller cannot exhaust the guest's memory. Files use HTTP, not RPC.
const maxMessageBytes = 16 << 20

// Unary serves a call with one request and one response.
func Unary[Req, Res any](handle func(r *http.Request, request *Req) (*Res, error)) http.Handler {
	return unary(func(w http.ResponseWriter, r *http.Request, codec codec, request *Req) error {
		response, err := handle(r, request)
		if err != nil {
			return err
		}
		body, err := codec.marshal(response)
		if err != nil {
			return Errorf(Internal, "writing the response: %s", err)
		}
		w.Header().Set("Content-Type", "application/"+codec.name)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		return nil
	})
}

// UnaryList serves a call with one request and one response, whose only field, with the number 1, is a list of any length. It sends
// each item when it is known. An error after the first one breaks the response off.
func UnaryList[Req, Item any](field string, handle func(r *http.Request, request *Req) (iter.Seq2[*Item, error], error)) http.Handler {
	return unary(func(w http.ResponseWriter, r *http.Request, codec codec, request *Req) error {
		items, err := handle(r, request)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/"+codec.name)
		out := bufio.NewWriterSize(w, 32<<10)
		if err := writeList(out, codec, field, items); err != nil {
			panic(http.ErrAbortHandler)
		}
		return nil
	})
}

func writeList[Item any](out *bufio.Writer, codec codec, field string, items iter.Seq2[*Item, error]) error {
	isJSON := codec.name == "json"
	before := ""
	if isJSON {
		_, _ = out.WriteString(`{"` + field + `":[`)
	}
	for item, err := range items {
		if err != nil {
			return err
		}
		body, err := codec.marshal(item)
		if err != nil {
			return err
		}
		if !isJSON {
			// The field's number and its type: bytes of this length.
			before = string(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(body))))
		}
		// An error of the writer is returned by Flush, and by every later call.
		_, _ = out.WriteString(before)
		if _, err := out.Write(body); err != nil {
			return err
		}
		before = ","
	}
	if isJSON {
		_, _ = out.WriteString("]}")
	}
	return out.Flush()
}

func unary[Req any](serve func(w http.ResponseWriter, r *http.Request, codec codec, request *Req) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codec, ok := codecFor(r.Header.Get("Content-Type"), "application/")
		if !ok {
			w.Header().Set("Accept-Post", "application/json, application/proto")
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		r, cancel, err := withTimeout(r)
		if err != nil {
			writeUnaryError(w, err)
			return
		}
		defer cancel()
		var request Req
		if err := readUnary(r, codec, &request); err != nil {
			writeUnaryError(w, err)
			return
		}
		if err := serve(w, r, codec, &request); err != nil {
			writeUnaryError(w, err)
		}
	})
}

// writeUnaryError responds to a call that failed before its handler ran. Streaming clients can read it too: the protocol
// allows a server to reject a stream with an HTTP status.
func writeUnaryError(w http.ResponseWriter, err error) {
	coded := asError(err)
	body, _ := json.Marshal(coded)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus[coded.Code])
	_, _ = w.Write(body)
}

func readUnary(r *http.Request, codec codec, request any) error {
	body, err := decompressed(r.Body, r.Header.Get("Content-Encoding"))
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(body, maxMessageBytes+1))
	if err != nil {
		return Errorf(InvalidArgument, "reading the request: %s", err)
	}
	return decode(codec, data, request)
}

// errTooLarge has not the code resource_exhausted, which clients show as a limit of their rate.
var errTooLarge = Errorf(InvalidArgument, "the message is larger than %d bytes: send it in parts, or as a file", maxMessageBytes)

func decode(codec codec, data []byte, message any) error {
	if len(data) > maxMessageBytes {
		return errTooLarge
	}
	if err := codec.unmarshal(data, message); err != nil {
		return Errorf(InvalidArgument, "reading the request: %s", err)
	}
	return nil
}

func decompressed(body io.Reader, encoding string) (io.Reader, error) {
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, Errorf(InvalidArgument, "reading the request: %s", err)
		}
		return unzipped, nil
	default:
		return nil, Errorf(Unimplemented, "unknown compression %q: supported encodings are gzip and identity", encoding)
	}
}

// withTimeout applies the caller's time limit to the request's context.
func withTimeout(r *http.Request) (*http.Request, context.CancelFunc, error) {
	timeout, err := Timeout(r)
	if err != nil || timeout == 0 {
		return r, func() {}, err
	}
	ctx, cancel := awake.WithTimeout(r.Context(), timeout)
	return r.WithContext(ctx), cancel, nil
}

// Timeout returns the caller's time limit, or 0 if there is none. The time in which the sandbox is paused does not count.
func Timeout(r *http.Request) (time.Duration, error) {
	text := r.Header.Get("Connect-Timeout-Ms")
	if text == "" {
		return 0, nil
	}
	milliseconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || milliseconds < 0 || len(text) > 10 {
		return 0, Errorf(InvalidArgument, "Connect-Timeout-Ms %q is not a number of milliseconds", text)
	}
	return time.Duration(milliseconds) * time.Millisecond, nil
}
