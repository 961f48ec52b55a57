package nft

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// afterOthers is a priority after that of all others who translate destinations.
const afterOthers = -90 // NF_IP_PRI_NAT_DST is -100

// addInbound adds the chain that leads connections to the node on to a job, if the node has no
// socket for them:
//
//	chain inbound { type nat hook prerouting priority dstnat + 10;
//	                fib daddr type != local accept;
//	                meta l4proto != { tcp, udp } accept;
//	                th dport < 1024 accept; th dport KEPT accept; …
//	                socket transparent { 0, 1 } accept;
//	                iif LEAD dnat to ADDRESS; … }
//
// The kernel looks for the socket when a connection begins. So a service that starts while the job
// runs gets later connections, and the node keeps those that it had before the kernel tracked any.
// Ports below 1024 stay the node's, because users cannot listen there.
func addInbound(c *nftables.Conn, t *nftables.Table, j Job) {
	priority := nftables.ChainPriority(afterOthers)
	chain := c.AddChain(&nftables.Chain{Name: "inbound", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: &priority})
	rule := func(verdict expr.Any, conditions ...expr.Any) {
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: append(conditions, verdict)})
	}
	cmp := func(op expr.CmpOp, data []byte) expr.Any { return &expr.Cmp{Register: 1, Op: op, Data: data} }
	rule(accept, &expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true}, cmp(expr.CmpOpNeq, native(unix.RTN_LOCAL)))
	protocol := &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}
	rule(accept, protocol, cmp(expr.CmpOpNeq, []byte{unix.IPPROTO_TCP}), cmp(expr.CmpOpNeq, []byte{unix.IPPROTO_UDP}))
	port := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: destinationPort, Len: 2}
	rule(accept, port, cmp(expr.CmpOpLt, binaryutil.BigEndian.PutUint16(1024)))
	for _, kept := range j.Inbound.Kept {
		rule(accept, port, cmp(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(kept))))
	}
	// A rule ends if it looks for a socket and finds none.
	rule(accept, &expr.Socket{Key: expr.SocketKeyTransparent, Register: 1})
	for _, lead := range j.Inbound.Leads {
		to := &expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}
		rule(to, append(is(expr.MetaKeyIIF, uint32(lead)), &expr.Immediate{Register: 1, Data: j.Address.AsSlice()})...)
	}
}
