package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Code is a Connect error code.
type Code string

const (
	Canceled          Code = "canceled"
	Unknown           Code = "unknown"
	InvalidArgument   Code = "invalid_argument"
	DeadlineExceeded  Code = "deadline_exceeded"
	NotFound          Code = "not_found"
	AlreadyExists     Code = "already_exists"
	PermissionDenied  Code = "permission_denied"
	ResourceExhausted Code = "resource_exhausted"
	FailedCondition   Code = "failed_precondition"
	Unimplemented     Code = "unimplemented"
	Internal          Code = "internal"
	Unauthenticated   Code = "unauthenticated"
)

// httpStatus is the table of the Connect protocol (connectrpc.com/docs/protocol, "Error codes").
var httpStatus = map[Code]int{
	Canceled:          499,
	Unknown:           http.StatusInternalServerError,
	InvalidArgument:   http.StatusBadRequest,
	DeadlineExceeded:  http.StatusGatewayTimeout,
	NotFound:          http.StatusNotFound,
	AlreadyExists:     http.StatusConflict,
	PermissionDenied:  http.StatusForbidden,
	ResourceExhausted: http.StatusTooManyRequests,
	FailedCondition:   http.StatusBadRequest,
	Unimplemented:     http.StatusNotImplemented,
	Internal:          http.StatusInternalServerError,
	Unauthenticated:   http.StatusUnauthorized,
}

// Error is what a caller sees of a failure.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
	// Details tell apart what has one code. Clients that do not know a detail pass over it.
	Details []Detail `json:"details,omitempty"`
}

// Detail is a Connect error detail: the name of a message and its bytes in base64, here always none.
type Detail struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// asError gives any error a code.
func asError(err error) *Error {
	var coded *Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(DeadlineExceeded, "the time that the call was given has passed")
	case errors.Is(err, context.Canceled):
		return Errorf(Canceled, "the caller went away")
	default:
		return Errorf(Unknown, "%s", err)
	}
}
