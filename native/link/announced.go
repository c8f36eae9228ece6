package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

const (
	announceTimeout  = 5 * time.Second
	maxAnnounceBytes = 16 << 10
	tlsHandshake     = 22
	tlsClientHello   = 1
	tlsServerName    = 0
)

// announcesName reports whether clients of that port send the first bytes and name the host: TLS and HTTP.
func announcesName(port uint16) bool { return port == 443 || port == 80 }

// readAnnouncedName reads the start of a connection until the client has named its host, in a TLS ClientHello or an HTTP
// header. It returns the name, or empty if there is none, and all bytes read.
func readAnnouncedName(conn *net.TCPConn) (name string, early []byte) {
	_ = conn.SetReadDeadline(time.Now().Add(announceTimeout))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	buffer := make([]byte, 0, 2048)
	for len(buffer) < maxAnnounceBytes {
		if len(buffer) == cap(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)[:len(buffer)]
		}
		n, err := conn.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if name, done := announcedName(buffer); done {
			return name, buffer
		}
		if err != nil {
			return "", buffer
		}
	}
	return "", buffer
}

// announcedName finds the name in the bytes read so far. done is false while more bytes are needed.
func announcedName(data []byte) (name string, done bool) {
	if len(data) == 0 {
		return "", false
	}
	if data[0] == tlsHandshake {
		name, done = serverName(data)
	} else {
		name, done = hostHeader(data)
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name, done
}

// serverName reads the server_name extension of a ClientHello in one record (RFC 8446, 4.1.2; RFC 6066, 3).
func serverName(data []byte) (name string, done bool) {
	const recordHeader = 5
	if len(data) < recordHeader {
		return "", false
	}
	length := int(binary.BigEndian.Uint16(data[3:]))
	if len(data) < recordHeader+length {
		return "", false
	}
	record := cryptobyte.String(data[recordHeader : recordHeader+length])
	var kind uint8
	var hello, session, suites, compression, extensions cryptobyte.String
	ok := record.ReadUint8(&kind) && kind == tlsClientHello && record.ReadUint24LengthPrefixed(&hello) &&
		hello.Skip(2+32) && hello.ReadUint8LengthPrefixed(&session) && hello.ReadUint16LengthPrefixed(&suites) &&
		hello.ReadUint8LengthPrefixed(&compression) && hello.ReadUint16LengthPrefixed(&extensions)
	for ok && !extensions.Empty() {
		var extension uint16
		var body, list, host cryptobyte.String
		if !extensions.ReadUint16(&extension) || !extensions.ReadUint16LengthPrefixed(&body) {
			break
		}
		if extension != tlsServerName {
			continue
		}
		if body.ReadUint16LengthPrefixed(&list) && list.ReadUint8(&kind) && kind == 0 && list.ReadUint16LengthPrefixed(&host) {
			return string(host), true
		}
		break
	}
	return "", true
}

// hostHeader reads the Host of an HTTP/1 request.
func hostHeader(data []byte) (name string, done bool) {
	head, _, complete := bytes.Cut(data, []byte("\r\n\r\n"))
	for line := range bytes.Lines(head) {
		field, value, found := bytes.Cut(line, []byte(":"))
		if !found || !bytes.EqualFold(field, []byte("host")) || !complete && !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		host := strings.TrimSpace(string(value))
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		return host, true
	}
	return "", complete
}
