package pb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// maxDepth limits nesting, so that malformed input cannot exhaust the stack. envd's deepest message has five levels.
const maxDepth = 16

var errTruncated = errors.New("message is cut short")

// Unmarshal reads protobuf's binary form into a struct whose fields have `pb:"<number>"` tags. Unknown fields are skipped.
func Unmarshal(data []byte, message any) error {
	v := reflect.ValueOf(message)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("pb: cannot decode into %T", message)
	}
	return decodeStruct(data, v.Elem(), 0)
}

func decodeStruct(data []byte, v reflect.Value, depth int) error {
	if depth > maxDepth {
		return errors.New("message is nested too deeply")
	}
	fields := fieldsOf(v.Type())
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return errors.New("message has a malformed field tag")
		}
		data = data[n:]
		number, wire := int(tag>>3), int(tag&7)
		scalar, payload, rest, err := readValue(data, wire)
		if err != nil {
			return err
		}
		data = rest
		for i := range fields {
			if fields[i].number != number {
				continue
			}
			if err := setField(v.Field(fields[i].index), fields[i], wire, scalar, payload, depth); err != nil {
				return fmt.Errorf("field %d: %w", number, err)
			}
		}
	}
	return nil
}

// readValue reads one value of the given wire type from the front of data.
func readValue(data []byte, wire int) (scalar uint64, payload, rest []byte, err error) {
	switch wire {
	case wireVarint:
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return 0, nil, nil, errTruncated
		}
		return value, nil, data[n:], nil
	case wireFixed64:
		if len(data) < 8 {
			return 0, nil, nil, errTruncated
		}
		return binary.LittleEndian.Uint64(data), nil, data[8:], nil
	case wireFixed32:
		if len(data) < 4 {
			return 0, nil, nil, errTruncated
		}
		return uint64(binary.LittleEndian.Uint32(data)), nil, data[4:], nil
	case wireBytes:
		length, n := binary.Uvarint(data)
		if n <= 0 || length > uint64(len(data)-n) {
			return 0, nil, nil, errTruncated
		}
		end := n + int(length)
		return 0, data[n:end], data[end:], nil
	default:
		return 0, nil, nil, fmt.Errorf("wire type %d is not supported", wire)
	}
}

func setField(v reflect.Value, f field, wire int, scalar uint64, payload []byte, depth int) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return setField(v.Elem(), f, wire, scalar, payload, depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if wire != wireBytes {
				return errors.New("is not bytes")
			}
			v.SetBytes(append([]byte{}, payload...))
			return nil
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if err := setField(element, f, wire, scalar, payload, depth); err != nil {
			return err
		}
		v.Set(reflect.Append(v, element))
		return nil
	case reflect.Map:
		return setMapEntry(v, wire, payload)
	case reflect.Struct:
		if wire != wireBytes {
			return errors.New("is not a message")
		}
		return decodeStruct(payload, v, depth+1)
	case reflect.String:
		if wire != wireBytes || !utf8.Valid(payload) {
			return errors.New("is not UTF-8 text")
		}
		v.SetString(string(payload))
		return nil
	}
	if wire != wireVarint {
		return errors.New("is not an integer")
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(scalar != 0)
	case reflect.Uint32:
		v.SetUint(uint64(uint32(scalar)))
	case reflect.Int32:
		if f.zigzag {
			v.SetInt(int64(int32(uint32(scalar)>>1) ^ -int32(scalar&1)))
		} else {
			v.SetInt(int64(int32(scalar)))
		}
	case reflect.Int64:
		v.SetInt(int64(scalar))
	default:
		return fmt.Errorf("has an unsupported type %s", v.Type())
	}
	return nil
}

func setMapEntry(v reflect.Value, wire int, payload []byte) error {
	if wire != wireBytes {
		return errors.New("is not a map entry")
	}
	var entry mapEntry
	if err := decodeStruct(payload, reflect.ValueOf(&entry).Elem(), maxDepth); err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	v.SetMapIndex(reflect.ValueOf(entry.Key), reflect.ValueOf(entry.Value))
	return nil
}
