package nft

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Priorities before and after that of all others who translate destinations.
const beforeOthers, afterOthers = -110, -90 // NF_IP_PRI_NAT_DST is -100

// addInbound adds the chain that leads connections to the node on to a job, if they are to its ports or
// the node has no socket for them:
//
//	chain inbound { type nat hook prerouting priority dstnat + 10;
//	                fib daddr type != local accept;
//	                meta l4proto != { tcp, udp } accept;
//	                th dport < 1024 accept; th dport KEPT accept; …
//	                iif LEAD th dport PORTS dnat to ADDRESS; …
//	                socket transparent { 0, 1 } accept;
//	                iif LEAD dnat to ADDRESS; … }
//
// The kernel looks for the socket when a connection begins. So a service that starts while the job
// runs gets later connections, and the node keeps those that it had before the kernel tracked any.
// Ports below 1024 stay the node's, because users cannot listen there.
func addInbound(c *nftables.Conn, t *nftables.Table, j Job) {
	priority := nftables.ChainPriority(afterOthers)
	chain := c.AddChain(&nftables.Chain{Name: "inbound", Table: t, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: &priority})
	add(c, chain, accept, []expr.Any{&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true}, compare(expr.CmpOpNeq, native(unix.RTN_LOCAL))})
	add(c, chain, accept, protocol(expr.CmpOpNeq, unix.IPPROTO_TCP), []expr.Any{compare(expr.CmpOpNeq, []byte{unix.IPPROTO_UDP})})
	add(c, chain, accept, port(destinationPort, expr.CmpOpLt, 1024))
	for _, kept := range j.Inbound.Kept {
		add(c, chain, accept, port(destinationPort, expr.CmpOpEq, kept))
	}
	if j.Ports[0] > 0 {
		for _, index := range j.Inbound.Leads {
			add(c, chain, nil, is(expr.MetaKeyIIF, uint32(index)), ports(destinationPort, j.Ports), dnat(j.Address))
		}
	}
	// A rule ends if it looks for a socket and finds none.
	add(c, chain, accept, []expr.Any{&expr.Socket{Key: expr.SocketKeyTransparent, Register: 1}})
	for _, index := range j.Inbound.Leads {
		add(c, chain, nil, is(expr.MetaKeyIIF, uint32(index)), dnat(j.Address))
	}
}
