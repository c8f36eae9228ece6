//go:build tools

// Package tools keeps the pinned programs in go.mod.
package tools

import (
	_ "github.com/fsouza/fake-gcs-server"
	_ "github.com/versity/versitygw/cmd/versitygw"
)
