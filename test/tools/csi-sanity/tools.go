//go:build tools

// Package tools keeps the pinned program in go.mod.
package tools

import _ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
