package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	flagCompressed = 1
	flagEnd        = 2

	// writeTimeout limits the time to send one message. After a restore, connections are dead but not closed, and without
	// a limit their handlers would never end.
	writeTimeout = 30 * time.Second
)

// Sender is the server's side of a server stream. It is not safe for concurrent use.
type Sender[Res any] struct {
	w       http.ResponseWriter
	control *http.ResponseController
	codec   codec
	trailer map[string][]string
}

// Send writes one message and flushes it.
func (s *Sender[Res]) Send(message *Res) error {
	body, err := s.codec.marshal(message)
	if err != nil {
		return Errorf(Internal, "writing the response: %s", err)
	}
	return s.envelope(0, body)
}

// SetTrailer adds metadata to the end of the stream.
func (s *Sender[Res]) SetTrailer(key, value string) {
	if s.trailer == nil {
		s.trailer = map[string][]string{}
	}
	s.trailer[key] = []string{value}
}

func (s *Sender[Res]) envelope(flags byte, body []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	header := make([]byte, 5, 5+len(body))
	header[0] = flags
	binary.BigEndian.PutUint32(header[1:], uint32(len(body)))
	if _, err := s.w.Write(append(header, body...)); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *Sender[Res]) finish(err error) {
	end := struct {
		Error    *Error              `json:"error,omitempty"`
		Metadata map[string][]string `json:"metadata,omitempty"`
	}{Metadata: s.trailer}
	if err != nil {
		end.Error = asError(err)
	}
	body, _ := json.Marshal(end)
	_ = s.envelope(flagEnd, body)
	_ = s.control.SetWriteDeadline(time.Time{})
}

// ServerStream serves a call with one request and many responses.
func ServerStream[Req, Res any](handle func(r *http.Request, request *Req, out *Sender[Res]) error) http.Handler {
	return streaming(func(r *http.Request, codec codec, out *Sender[Res]) error {
		request, err := receive[Req](r, codec)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return Errorf(InvalidArgument, "the stream has no request")
			}
			return err
		}
		// net/http notices that the caller disconnected only after the body has been read to its end.
		if n, _ := io.Copy(io.Discard, io.LimitReader(r.Body, 1)); n > 0 {
			return Errorf(InvalidArgument, "the stream has more than one request")
		}
		return handle(r, request, out)
	})
}

// ClientStream serves a call with many requests and one response. `next` returns io.EOF after the last one.
func ClientStream[Req, Res any](handle func(r *http.Request, next func() (*Req, error)) (*Res, error)) http.Handler {
	return streaming(func(r *http.Request, codec codec, out *Sender[Res]) error {
		response, err := handle(r, func() (*Req, error) { return receive[Req](r, codec) })
		if err != nil {
			return err
		}
		return out.Send(response)
	})
}

func streaming[Res any](serve func(r *http.Request, codec codec, out *Sender[Res]) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codec, ok := codecFor(r.Header.Get("Content-Type"), "application/connect+")
		if !ok {
			w.Header().Set("Accept-Post", "application/connect+json, application/connect+proto")
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		w.Header().Set("Content-Type", "application/connect+"+codec.name)
		w.Header().Set("Connect-Accept-Encoding", "gzip")
		out := &Sender[Res]{w: w, control: http.NewResponseController(w), codec: codec}
		r, cancel, err := withTimeout(r)
		if err != nil {
			out.finish(err)
			return
		}
		defer cancel()
		out.finish(serve(r, codec, out))
	})
}

// receive reads one enveloped message. It returns io.EOF after the caller's last one.
func receive[Req any](r *http.Request, codec codec) (*Req, error) {
	var header [5]byte
	if _, err := io.ReadFull(r.Body, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, Errorf(InvalidArgument, "reading the stream: %s", err)
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length > maxMessageBytes {
		return nil, errTooLarge
	}
	if header[0]&^flagCompressed != 0 {
		return nil, Errorf(InvalidArgument, "the stream has an envelope with unknown flags %#x", header[0])
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(r.Body, data); err != nil {
		return nil, Errorf(InvalidArgument, "reading the stream: %s", err)
	}
	if header[0]&flagCompressed != 0 {
		unzipped, err := decompressed(bytes.NewReader(data), r.Header.Get("Connect-Content-Encoding"))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(io.LimitReader(unzipped, maxMessageBytes+1)); err != nil {
			return nil, Errorf(InvalidArgument, "reading the stream: %s", err)
		}
	}
	message := new(Req)
	return message, decode(codec, data, message)
}
