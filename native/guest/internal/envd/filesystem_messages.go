package envd

import (
	"encoding/json"

	"ramet.dev/native/guest/internal/pb"
)

// The messages of filesystem.Filesystem. Names and numbers are those of envd's public contract; see
// proto/filesystem.proto.

type pathRequest struct {
	Path string `json:"path" pb:"1"`
}

type listDirRequest struct {
	Path  string `json:"path" pb:"1"`
	Depth uint32 `json:"depth" pb:"2"`
}

type moveRequest struct {
	Source      string `json:"source" pb:"1"`
	Destination string `json:"destination" pb:"2"`
}

type entryInfo struct {
	Name          string        `json:"name" pb:"1"`
	Type          fileTypeEnum  `json:"type" pb:"2"`
	Path          string        `json:"path" pb:"3"`
	Size          pb.Int64      `json:"size" pb:"4"`
	Mode          uint32        `json:"mode" pb:"5"`
	Permissions   string        `json:"permissions" pb:"6"`
	Owner         string        `json:"owner" pb:"7"`
	Group         string        `json:"group" pb:"8"`
	ModifiedTime  *pb.Timestamp `json:"modifiedTime" pb:"9"`
	SymlinkTarget *string       `json:"symlinkTarget,omitempty" pb:"10"`
	// Metadata is what uploads have set, or programs as extended attributes user.e2b.*.
	Metadata map[string]string `json:"metadata,omitempty" pb:"11"`
}

// entryResponse is the response of Stat, MakeDir and Move.
type entryResponse struct {
	Entry *entryInfo `json:"entry" pb:"1"`
}

// watchRequest is the request of WatchDir and CreateWatcher.
type watchRequest struct {
	Path               string `json:"path" pb:"1"`
	Recursive          bool   `json:"recursive" pb:"2"`
	IncludeEntry       bool   `json:"includeEntry" pb:"3"`
	AllowNetworkMounts bool   `json:"allowNetworkMounts" pb:"4"`
}

// UnmarshalJSON also accepts the names of the .proto file, as proto3 JSON requires.
func (w *watchRequest) UnmarshalJSON(text []byte) error {
	type plain watchRequest
	alias := struct {
		*plain
		Include bool `json:"include_entry"`
		Network bool `json:"allow_network_mounts"`
	}{plain: (*plain)(w)}
	if err := json.Unmarshal(text, &alias); err != nil {
		return err
	}
	w.IncludeEntry = w.IncludeEntry || alias.Include
	w.AllowNetworkMounts = w.AllowNetworkMounts || alias.Network
	return nil
}

// watcherID is the response of CreateWatcher, and identifies a watcher in later requests.
type watcherID struct {
	ID string `json:"watcherId" pb:"1"`
}

// UnmarshalJSON also accepts the name of the .proto file.
func (w *watcherID) UnmarshalJSON(text []byte) error {
	var named struct {
		Camel string `json:"watcherId"`
		Snake string `json:"watcher_id"`
	}
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	w.ID = named.Camel + named.Snake
	return nil
}

type watchEvents struct {
	Events []*watchEvent `json:"events" pb:"1"`
}

type watchResponse struct {
	Start      *empty      `json:"start,omitempty" pb:"1"`
	Filesystem *watchEvent `json:"filesystem,omitempty" pb:"2"`
	Keepalive  *empty      `json:"keepalive,omitempty" pb:"3"`
}

type watchEvent struct {
	Name  string     `json:"name" pb:"1"`
	Type  eventEnum  `json:"type" pb:"2"`
	Entry *entryInfo `json:"entry,omitempty" pb:"3"`
}

type fileTypeEnum int32

const (
	typeUnspecified fileTypeEnum = iota
	typeFile
	typeDirectory
	typeSymlink
)

func (t fileTypeEnum) MarshalJSON() ([]byte, error) {
	return pb.EnumName(map[int32]string{
		0: "FILE_TYPE_UNSPECIFIED", 1: "FILE_TYPE_FILE", 2: "FILE_TYPE_DIRECTORY", 3: "FILE_TYPE_SYMLINK",
	}, int32(t))
}

type eventEnum int32

const (
	eventCreate eventEnum = 1 + iota
	eventWrite
	eventRemove
	eventRename
	eventChmod
)

func (e eventEnum) MarshalJSON() ([]byte, error) {
	return pb.EnumName(map[int32]string{
		0: "EVENT_TYPE_UNSPECIFIED", 1: "EVENT_TYPE_CREATE", 2: "EVENT_TYPE_WRITE",
		3: "EVENT_TYPE_REMOVE", 4: "EVENT_TYPE_RENAME", 5: "EVENT_TYPE_CHMOD",
	}, int32(e))
}
