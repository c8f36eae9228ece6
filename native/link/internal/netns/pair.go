package netns

import (
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// The addresses are equal in every sandbox, so that a clone needs no other ones (docs/architecture.md, Addresses).
var (
	GatewayAddress = netip.MustParseAddr("169.254.17.1")
	SandboxAddress = netip.MustParseAddr("169.254.17.2")
	gatewayMAC     = net.HardwareAddr{0x02, 0x52, 0x41, 0x4d, 0x45, 0x01}
	sandboxMAC     = net.HardwareAddr{0x02, 0x52, 0x41, 0x4d, 0x45, 0x02}
)

const (
	// GatewayInterface is the veth's end in the gateway namespace.
	GatewayInterface = "ramet0"
	sandboxInterface = "eth0"
	prefixBits       = 30
)

// A Pair is the gateway namespace, the sandbox namespace, and the veth between them.
type Pair struct {
	Gateway *Namespace
	Sandbox *Namespace
	// sandbox speaks rtnetlink in the sandbox namespace.
	sandbox *netlink.Handle
}

// NewPair makes both namespaces and all that stands in them. Nothing is made or changed outside of them.
func NewPair() (*Pair, error) {
	gateway, err := New()
	if err != nil {
		return nil, err
	}
	sandbox, err := New()
	if err != nil {
		gateway.Close()
		return nil, err
	}
	p := &Pair{Gateway: gateway, Sandbox: sandbox}
	if err := p.connect(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Prepare gives the sandbox's interface its address, neighbour and route again. gVisor takes them away when it starts, and
// reads them when the next sandbox is made in the same namespace.
func (p *Pair) Prepare() error {
	eth0, err := p.sandbox.LinkByName(sandboxInterface)
	if err != nil {
		return fault.Kernel("Finding eth0 of the sandbox", err)
	}
	return configure(p.sandbox, eth0, SandboxAddress, func() error {
		index := eth0.Attrs().Index
		if err := neighbour(p.sandbox, index, GatewayAddress, gatewayMAC); err != nil {
			return fault.Kernel("Setting the gateway's MAC in the sandbox", err)
		}
		route := &netlink.Route{LinkIndex: index, Gw: GatewayAddress.AsSlice()}
		if err := p.sandbox.RouteReplace(route); err != nil {
			return fault.Kernel("Setting the sandbox's default route", err)
		}
		return nil
	})
}

// Close lets go of both namespaces; with them goes the veth.
func (p *Pair) Close() {
	if p.sandbox != nil {
		p.sandbox.Close()
	}
	p.Gateway.Close()
	p.Sandbox.Close()
}

func (p *Pair) connect() error {
	gateway, err := handleIn(p.Gateway)
	if err != nil {
		return err
	}
	defer gateway.Close()
	if p.sandbox, err = handleIn(p.Sandbox); err != nil {
		return err
	}
	// Both ends are made where they stay: moving one afterwards costs several times the whole set-up under the kernel's
	// one lock for network configuration.
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = GatewayInterface, gatewayMAC
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: sandboxInterface, PeerHardwareAddr: sandboxMAC, PeerNamespace: netlink.NsFd(p.Sandbox.Fd()),
	}
	if err := gateway.LinkAdd(veth); err != nil {
		return fault.Kernel("Making the veth pair", err)
	}
	outer, err := gateway.LinkByName(GatewayInterface)
	if err != nil {
		return fault.Kernel("Finding the veth's gateway end", err)
	}
	err = configure(gateway, outer, GatewayAddress, func() error {
		return neighbour(gateway, outer.Attrs().Index, SandboxAddress, sandboxMAC)
	})
	if err != nil {
		return err
	}
	for _, h := range []*netlink.Handle{gateway, p.sandbox} {
		lo, err := h.LinkByName("lo")
		if err != nil {
			return fault.Kernel("Finding lo", err)
		}
		if err := h.LinkSetUp(lo); err != nil {
			return fault.Kernel("Setting lo up", err)
		}
	}
	if err := p.Prepare(); err != nil {
		return err
	}
	return awaitCarrier(gateway)
}

// awaitCarrier waits until the gateway's end, which was set up first, sends. Setting its peer up only asks the kernel to
// look at it again, and until then it drops packets. Since Linux 6.8 asking for its state makes the kernel look at once.
func awaitCarrier(h *netlink.Handle) error {
	for deadline := time.Now().Add(carrierTimeout); ; time.Sleep(time.Millisecond) {
		link, err := h.LinkByName(GatewayInterface)
		if err != nil {
			return fault.Kernel("Finding the veth's gateway end", err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fault.New("HostUnsupported", "", "Making the veth pair failed: it has no carrier after %v", carrierTimeout)
		}
	}
}

const carrierTimeout = 5 * time.Second

func handleIn(ns *Namespace) (*netlink.Handle, error) {
	var h *netlink.Handle
	var err error
	ns.Do(func() { h, err = netlink.NewHandle(unix.NETLINK_ROUTE) })
	if err != nil {
		return nil, fault.Kernel("Opening rtnetlink in the namespace", err)
	}
	return h, nil
}

// configure sets one interface up with one address; then runs what needs it to be up.
func configure(h *netlink.Handle, link netlink.Link, address netip.Addr, then func() error) error {
	// Ramet carries IPv4 only. Where the kernel has no IPv6 there is nothing to turn off, so a failure is none.
	_ = h.LinkSetIP6AddrGenMode(link, nl6AddrGenNone)
	mask := net.CIDRMask(prefixBits, 32)
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: mask}}
	if err := h.AddrReplace(link, addr); err != nil {
		return fault.Kernel("Setting the address "+address.String(), err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fault.Kernel("Setting "+link.Attrs().Name+" up", err)
	}
	return then()
}

// nl6AddrGenNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h: no link-local address is made.
const nl6AddrGenNone = 1

func neighbour(h *netlink.Handle, index int, address netip.Addr, mac net.HardwareAddr) error {
	return h.NeighSet(&netlink.Neigh{
		LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: mac,
	})
}
