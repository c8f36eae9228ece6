package netns

import (
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/confine"
	"ramet.dev/native/link/internal/fault"
)

// The addresses are the same in every sandbox, so that a clone keeps them (docs/architecture.md, Addresses).
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
	// sandbox is the rtnetlink handle in the sandbox namespace.
	sandbox *netlink.Handle
}

// NewPair creates both namespaces and their interfaces. It changes nothing outside them.
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

// Prepare restores the address, neighbour and route of the sandbox's interface. gVisor removes them when it starts, and
// reads them when the next sandbox is created in the same namespace.
func (p *Pair) Prepare() error { return confine.WithNetAdmin(p.prepare) }

func (p *Pair) prepare() error {
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

// Close releases both namespaces, and with them the veth pair.
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
	// Both ends are created in their final namespaces: moving one afterwards takes several times as long as the whole
	// set-up, under the kernel's global lock for network configuration.
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = GatewayInterface, gatewayMAC
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: sandboxInterface, PeerHardwareAddr: sandboxMAC, PeerNamespace: netlink.NsFd(p.Sandbox.Fd()),
	}
	if err := gateway.LinkAdd(veth); err != nil {
		return fault.Kernel("Creating the veth pair", err)
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
	if err := p.ownAddressOnLoopback(); err != nil {
		return err
	}
	if err := p.Prepare(); err != nil {
		return err
	}
	return awaitCarrier(gateway)
}

// ownAddressOnLoopback gives lo of the sandbox its address too. gVisor keeps a connection over a restore only if its address is on lo,
// so a connection to the sandbox's own address would be reset. Without the route of the address, the node's kernel does not answer in
// place of gVisor.
func (p *Pair) ownAddressOnLoopback() error {
	lo, err := p.sandbox.LinkByName("lo")
	if err != nil {
		return fault.Kernel("Finding lo of the sandbox", err)
	}
	own := &net.IPNet{IP: SandboxAddress.AsSlice(), Mask: net.CIDRMask(32, 32)}
	if err := p.sandbox.AddrReplace(lo, &netlink.Addr{IPNet: own}); err != nil {
		return fault.Kernel("Setting the address of lo in the sandbox", err)
	}
	route := &netlink.Route{
		LinkIndex: lo.Attrs().Index, Dst: own, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
	}
	if err := p.sandbox.RouteDel(route); err != nil {
		return fault.Kernel("Removing the local route of lo in the sandbox", err)
	}
	return nil
}

// awaitCarrier waits until the gateway's end, which was set up first, has a carrier. Setting its peer up only schedules an
// update in the kernel, and until then packets are dropped. Since Linux 6.8 reading its state updates it immediately.
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
			return fault.New("HostUnsupported", "", "Creating the veth pair failed: it has no carrier after %v", carrierTimeout)
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

// configure sets one interface up with one address, and then runs the steps that need it up.
func configure(h *netlink.Handle, link netlink.Link, address netip.Addr, then func() error) error {
	// Ramet supports only IPv4. A kernel without IPv6 has nothing to turn off, so errors are ignored.
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

// nl6AddrGenNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h: no link-local address is created.
const nl6AddrGenNone = 1

func neighbour(h *netlink.Handle, index int, address netip.Addr, mac net.HardwareAddr) error {
	return h.NeighSet(&netlink.Neigh{
		LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: mac,
	})
}
