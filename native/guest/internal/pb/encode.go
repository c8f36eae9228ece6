// Package pb encodes and decodes envd's messages in protobuf's binary form, from plain Go structs that encoding/json can
// also handle. The protobuf runtime alone would exceed the guest's size limit. The tests compare this package with it.
package pb

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// Marshal encodes a struct whose fields have `pb:"<number>"` tags (`pb:"<number>,zigzag"` for sint32). A pointer is an
// optional value or a message, and is omitted if nil. Other fields are omitted if zero, as in proto3.
func Marshal(message any) ([]byte, error) {
	v := reflect.ValueOf(message)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("pb: cannot encode %T", message)
	}
	return encodeStruct(nil, v)
}

type field struct {
	index  int
	number int
	zigzag bool
}

type mapEntry struct {
	Key   string `pb:"1"`
	Value string `pb:"2"`
}

func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		number, option, _ := strings.Cut(t.Field(i).Tag.Get("pb"), ",")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		fields = append(fields, field{index: i, number: n, zigzag: option == "zigzag"})
	}
	return fields
}

func encodeStruct(out []byte, v reflect.Value) ([]byte, error) {
	var err error
	for _, f := range fieldsOf(v.Type()) {
		if out, err = encodeField(out, v.Field(f.index), f, false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func encodeField(out []byte, v reflect.Value, f field, present bool) ([]byte, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return out, nil
		}
		return encodeField(out, v.Elem(), f, true)
	case reflect.Struct:
		body, err := encodeStruct(nil, v)
		return appendBytes(out, f.number, body), err
	case reflect.Slice:
		return encodeSlice(out, v, f, present)
	case reflect.Map:
		return encodeMap(out, v, f)
	}
	if v.IsZero() && !present {
		return out, nil
	}
	switch v.Kind() {
	case reflect.String:
		// A file's name can have any bytes. Receivers reject text that is not UTF-8, as JSON's encoder replaces it.
		return appendBytes(out, f.number, []byte(strings.ToValidUTF8(v.String(), "\uFFFD"))), nil
	case reflect.Bool:
		value := uint64(0)
		if v.Bool() {
			value = 1
		}
		return appendVarint(out, f.number, value), nil
	case reflect.Uint32:
		return appendVarint(out, f.number, v.Uint()), nil
	case reflect.Int32, reflect.Int64:
		value := v.Int()
		if f.zigzag {
			return appendVarint(out, f.number, uint64(value<<1^value>>63)), nil
		}
		return appendVarint(out, f.number, uint64(value)), nil
	default:
		return nil, fmt.Errorf("pb: field %d has an unsupported type %s", f.number, v.Type())
	}
}

func encodeSlice(out []byte, v reflect.Value, f field, present bool) ([]byte, error) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.Len() == 0 && !present {
			return out, nil
		}
		return appendBytes(out, f.number, v.Bytes()), nil
	}
	var err error
	for i := range v.Len() {
		if out, err = encodeField(out, v.Index(i), f, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func encodeMap(out []byte, v reflect.Value, f field) ([]byte, error) {
	entries, ok := v.Interface().(map[string]string)
	if !ok {
		return nil, fmt.Errorf("pb: field %d has an unsupported type %s", f.number, v.Type())
	}
	keys := make([]string, 0, len(entries))
	for key := range entries {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		body, err := Marshal(mapEntry{Key: key, Value: entries[key]})
		if err != nil {
			return nil, err
		}
		out = appendBytes(out, f.number, body)
	}
	return out, nil
}

func appendVarint(out []byte, number int, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(out, uint64(number)<<3|wireVarint), value)
}

func appendBytes(out []byte, number int, body []byte) []byte {
	out = binary.AppendUvarint(out, uint64(number)<<3|wireBytes)
	return append(binary.AppendUvarint(out, uint64(len(body))), body...)
}
