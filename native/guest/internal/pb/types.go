package pb

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes is a protobuf bytes field: base64 in JSON. As proto3 JSON requires, it accepts both alphabets, padded or not.
type Bytes []byte

func (b Bytes) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+2)
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, b)
	return append(out, '"'), nil
}

func (b *Bytes) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	s = strings.TrimRight(s, "=")
	s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	raw, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	*b = raw
	return nil
}

// Int64 is a protobuf int64: a decimal string in JSON, because JSON numbers lose precision. It also accepts a number.
type Int64 int64

func (v Int64) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatInt(int64(v), 10) + `"`), nil
}

func (v *Int64) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*v = Int64(n)
	return err
}

// Timestamp is google.protobuf.Timestamp: RFC 3339 in JSON.
type Timestamp struct {
	Seconds Int64 `pb:"1"`
	Nanos   int32 `pb:"2"`
}

// firstSecond and lastSecond limit a Timestamp to the years 1 to 9999, as protobuf requires.
const (
	firstSecond = -62135596800
	lastSecond  = 253402300799
)

// TimestampOf converts a time. A program in the sandbox can give a file any time: one out of range becomes the nearest.
func TimestampOf(t time.Time) *Timestamp {
	if t.Unix() < firstSecond {
		return &Timestamp{Seconds: firstSecond}
	}
	if t.Unix() > lastSecond {
		return &Timestamp{Seconds: lastSecond}
	}
	return &Timestamp{Seconds: Int64(t.Unix()), Nanos: int32(t.Nanosecond())}
}

func (t Timestamp) MarshalJSON() ([]byte, error) {
	return time.Unix(int64(t.Seconds), int64(t.Nanos)).UTC().MarshalJSON()
}

func (t *Timestamp) UnmarshalJSON(text []byte) error {
	var at time.Time
	if err := at.UnmarshalJSON(text); err != nil {
		return err
	}
	*t = *TimestampOf(at)
	return nil
}

// EnumName encodes an enum value as proto3 JSON does: the name, or the number if it has no name.
func EnumName(names map[int32]string, value int32) ([]byte, error) {
	if name, ok := names[value]; ok {
		return json.Marshal(name)
	}
	return json.Marshal(value)
}

// EnumValue decodes an enum value from a name or a number.
func EnumValue(names map[int32]string, text []byte) (int32, error) {
	var number int32
	if json.Unmarshal(text, &number) == nil {
		return number, nil
	}
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return 0, err
	}
	for value, known := range names {
		if known == name {
			return value, nil
		}
	}
	return 0, fmt.Errorf("unknown enum value %q", name)
}
