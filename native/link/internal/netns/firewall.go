package netns

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"ramet.dev/native/link/internal/fault"
)

// DNSPort is the relay's port in the gateway namespace.
const DNSPort = 53

// Redirect sets the rules of the gateway namespace: TCP connections from the sandbox go to the proxy's port, and DNS
// queries go to the relay. Everything else is dropped, and nothing is forwarded.
func (p *Pair) Redirect(proxyPort uint16) error {
	// Opened on the namespace's thread: an unprivileged user can enter the namespace but not leave it.
	var c *nftables.Conn
	var err error
	p.Gateway.Do(func() { c, err = nftables.New(nftables.AsLasting()) })
	if err != nil {
		return fault.Kernel("Opening nftables in the gateway namespace", err)
	}
	defer func() { _ = c.CloseLasting() }()
	nat := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "ramet"})
	pre := c.AddChain(&nftables.Chain{
		Name: "prerouting", Table: nat, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest,
	})
	toRelay := join(from(GatewayInterface), protocol(unix.IPPROTO_TCP), destination(GatewayAddress), port(DNSPort), accept())
	redirect := join(from(GatewayInterface), protocol(unix.IPPROTO_TCP), []expr.Any{
		&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(proxyPort)},
		&expr.Redir{RegisterProtoMin: 1},
	})
	add(c, nat, pre, toRelay, redirect)

	drop := nftables.ChainPolicyDrop
	filter := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "ramet"})
	input := c.AddChain(&nftables.Chain{
		Name: "input", Table: filter, Type: nftables.ChainTypeFilter, Policy: &drop,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
	})
	// A new namespace may inherit net.ipv4.ip_forward from the machine, so a rule drops forwarded packets.
	c.AddChain(&nftables.Chain{
		Name: "forward", Table: filter, Type: nftables.ChainTypeFilter, Policy: &drop,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	fromSandbox := join(from(GatewayInterface), ipv4(), source(SandboxAddress))
	add(c, filter, input,
		join(from("lo"), accept()),
		join(fromSandbox, established(), accept()),
		join(fromSandbox, protocol(unix.IPPROTO_TCP), port(proxyPort), accept()),
		join(fromSandbox, protocol(unix.IPPROTO_TCP), port(DNSPort), accept()),
		join(fromSandbox, protocol(unix.IPPROTO_UDP), destination(GatewayAddress), port(DNSPort), accept()),
	)
	if err := c.Flush(); err != nil {
		return fault.Kernel("Setting nftables rules in the gateway namespace", err)
	}
	return nil
}

func add(c *nftables.Conn, table *nftables.Table, chain *nftables.Chain, rules ...[]expr.Any) {
	for _, exprs := range rules {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
}

func join(parts ...[]expr.Any) []expr.Any {
	var all []expr.Any
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func equal(value []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value} }

func meta(key expr.MetaKey, value []byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, equal(value)}
}

func header(base expr.PayloadBase, offset uint32, value []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: base, Offset: offset, Len: uint32(len(value))},
		equal(value),
	}
}

func from(name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return meta(expr.MetaKeyIIFNAME, padded)
}

func ipv4() []expr.Any                { return meta(expr.MetaKeyNFPROTO, []byte{unix.NFPROTO_IPV4}) }
func protocol(number byte) []expr.Any { return meta(expr.MetaKeyL4PROTO, []byte{number}) }
func source(a netip.Addr) []expr.Any  { return header(expr.PayloadBaseNetworkHeader, 12, a.AsSlice()) }
func destination(a netip.Addr) []expr.Any {
	return header(expr.PayloadBaseNetworkHeader, 16, a.AsSlice())
}
func port(number uint16) []expr.Any {
	return header(expr.PayloadBaseTransportHeader, 2, binaryutil.BigEndian.PutUint16(number))
}
func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

func established() []expr.Any {
	bits := uint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}
