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
	Canceled         Code = "canceled"
	Unknown          Code = "unknown"
	InvalidArgument  Code = "invalid_argument"
	DeadlineExceeded Code = "deadline_exceeded"
	NotFound         Code = "not_found"
	AlreadyExists    Code = "already_exists"
	PermissionDenied Code = "permission_denied"
	FailedCondition  Code = "failed_precondition"
	Unimplemented    Code = "unimplemented"
	Internal         Code = "internal"
	Unauthenticated  Code = "unauthenticated"
)

// httpStatus is the table of the Connect protocol (connectrpc.com/docs/protocol, "Error codes").
var httpStatus = map[Code]int{
	Canceled:         499,
	Unknown:          http.StatusInternalServerError,
	InvalidArgument:  http.StatusBadRequest,
	DeadlineExceeded: http.StatusGatewayTimeout,
	NotFound:         http.StatusNotFound,
	AlreadyExists:    http.StatusConflict,
	PermissionDenied: http.StatusForbidden,
	FailedCondition:  http.StatusBadRequest,
	Unimplemented:    http.StatusNotImplemented,
	Internal:         http.StatusInternalServerError,
	Unauthenticated:  http.StatusUnauthorized,
}

// Error is the error that a caller receives.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
	// Details distinguish errors with the same code. Clients ignore details that they do not know.
	Details []Detail `json:"details,omitempty"`
}

// Detail is a Connect error detail: the name of a message and its content in base64, which is always empty here.
type Detail struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Errorf returns an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// asError converts any error to one with a code.
func asError(err error) *Error {
	var coded *Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(DeadlineExceeded, "the call's timeout has expired")
	case errors.Is(err, context.Canceled):
		return Errorf(Canceled, "the caller disconnected")
	default:
		return Errorf(Unknown, "%s", err)
	}
}
