// The static Go programs of Ramet: the guest (PID 1 of a sandbox), the link (its network), and the gofer (files of checkpoints).
module ramet.dev/native

go 1.26.3

require (
	connectrpc.com/connect v1.21.1
	github.com/google/nftables v0.3.0
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/crypto v0.58.0
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/time v0.15.0 // indirect
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/mdlayher/netlink v1.7.3-0.20250113171957-fbb4dce95f42 // indirect
	github.com/mdlayher/socket v0.5.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/sync v0.20.0 // indirect
	gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
)
