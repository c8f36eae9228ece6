//go:build tools

// Package tools keeps the pinned programs in go.mod.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "gvisor.dev/gvisor/runsc"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
