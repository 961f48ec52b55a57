package nft

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Job is a job's uplink, as the node sees it.
type Job struct {
	Address netip.Addr
	Index   uint32 // of the uplink's end on the node
	Bit     uint32 // is set in the index of each job's uplink, and of no other on the node
	UID     uint32
	Most    uint32 // bounds the job's connections at one time
	Inbound *Inbound
}

// Inbound says which connections to the node are led on to a job.
type Inbound struct {
	Leads []int // the indices of the interfaces by which they come
	Kept  []int // the ports that stay the node's, whether anybody listens there or not
}

// LeadOut makes the table of a job that reaches what the node reaches, under the node's address,
// and that nobody reaches:
//
//	nft 'table ip TABLE {
//	  chain postrouting { type nat hook postrouting priority srcnat; ip saddr ADDRESS masquerade; }
//	  chain prerouting  { type filter hook prerouting priority filter;
//	                      iif INDEX ct state & (established | related) == 0 ct count over MOST drop; }
//	  chain forward     { type filter hook forward priority filter;
//	                      iif INDEX oif & BIT != 0 drop;
//	                      oif INDEX ct state & (established | related) == 0 drop;
//	                      oif INDEX ct direction original ct status & dnat != 0 drop; }
//	  set users         { type uid; flags dynamic; }
//	  chain output      { type filter hook output priority filter;
//	                      oif INDEX ct state & (established | related) == 0 skuid != { 0, UID } drop;
//	                      skuid != 0 ct state & (established | related) == 0 add @users { skuid ct count over MOST } drop; } }'
//
// With Inbound, forward's second rule also has the condition ct status & dnat == 0, there is no
// third rule, and addInbound adds its chain.
//
// On the node, root's processes and the user's own reach the job: slurmstepd does so for srun. The
// kernel has one list of connections for the node and all of its jobs, so neither a job nor a user
// on the node may fill it. If the table exists, LeadOut leaves it as it is.
func LeadOut(table string, j Job) error {
	var failed error
	err := create(nftables.TableFamilyIPv4, table, func(c *nftables.Conn, t *nftables.Table) {
		addMasquerade(c, t, j.Address)
		prerouting := filter(c, t, "prerouting", nftables.ChainHookPrerouting)
		drop(c, prerouting, is(expr.MetaKeyIIF, j.Index), isNew(), []expr.Any{over(j.Most)})
		forward := filter(c, t, "forward", nftables.ChainHookForward)
		drop(c, forward, is(expr.MetaKeyIIF, j.Index), hasBit(expr.MetaKeyOIF, j.Bit))
		if j.Inbound != nil {
			addInbound(c, t, j)
			drop(c, forward, is(expr.MetaKeyOIF, j.Index), isNew(), without(status(), statusDNAT))
		} else {
			drop(c, forward, is(expr.MetaKeyOIF, j.Index), isNew())
			// These are connections to a job that had the address before.
			drop(c, forward, is(expr.MetaKeyOIF, j.Index), isOriginal(), masked(status(), statusDNAT, expr.CmpOpNeq))
		}
		output := filter(c, t, "output", nftables.ChainHookOutput)
		drop(c, output, is(expr.MetaKeyOIF, j.Index), isNew(), isNot(expr.MetaKeySKUID, 0), isNot(expr.MetaKeySKUID, j.UID))
		users := &nftables.Set{Table: t, Name: "users", KeyType: nftables.TypeUID, Dynamic: true}
		if failed = c.AddSet(users, nil); failed == nil {
			drop(c, output, isNew(), isNot(expr.MetaKeySKUID, 0), countedIn(users, j.Most)) // the user is loaded still
		}
	})
	err = cmp.Or(failed, err)
	if err != nil {
		return fmt.Errorf("let %s reach what the node reaches: %w", j.Address, err)
	}
	return nil
}

// Guard makes the table that lets the node forward what arrives by an interface to its jobs, and to
// nobody else:
//
//	nft 'table ip TABLE { chain forward { type filter hook forward priority filter;
//	  iif INDEX oif & BIT == 0 ct state & (established | related) == 0 ct status & dnat == 0 drop; } }'
//
// Answers pass, and so does what the node's own rules lead elsewhere: containers' networks need
// both. If the table exists, Guard leaves it as it is.
func Guard(table string, index, bit uint32) error {
	err := create(nftables.TableFamilyIPv4, table, func(c *nftables.Conn, t *nftables.Table) {
		forward := filter(c, t, "forward", nftables.ChainHookForward)
		drop(c, forward, is(expr.MetaKeyIIF, index), hasNoBit(expr.MetaKeyOIF, bit), isNew(), without(status(), statusDNAT))
	})
	if err != nil && !errors.Is(err, unix.EEXIST) { // another prolog's
		return fmt.Errorf("keep interface %d from forwarding for others: %w", index, err)
	}
	return nil
}

// over matches a packet that would begin more connections than most, of all that come so far.
func over(most uint32) expr.Any {
	return &expr.Connlimit{Count: most, Flags: expr.NFT_CONNLIMIT_F_INV}
}

// countedIn is over for each value of the register that a rule has loaded last.
func countedIn(set *nftables.Set, most uint32) []expr.Any {
	return []expr.Any{&expr.Dynset{
		SrcRegKey: 1, SetName: set.Name, SetID: set.ID, Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{over(most)},
	}}
}

// statusDNAT is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
const statusDNAT = 1 << 5

func status() expr.Any { return &expr.Ct{Key: expr.CtKeySTATUS, Register: 1} }

// isOriginal matches packets in the direction of the connection's first packet.
func isOriginal() []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0}}}
}

func addMasquerade(c *nftables.Conn, t *nftables.Table, from netip.Addr) {
	chain := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: append(source(from), &expr.Masq{})})
}

func filter(c *nftables.Conn, t *nftables.Table, name string, hook *nftables.ChainHook) *nftables.Chain {
	return c.AddChain(&nftables.Chain{
		Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
	})
}

// drop adds a rule that drops packets which meet all conditions.
func drop(c *nftables.Conn, chain *nftables.Chain, conditions ...[]expr.Any) {
	var all []expr.Any
	for _, one := range conditions {
		all = append(all, one...)
	}
	c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: append(all, &expr.Verdict{Kind: expr.VerdictDrop})})
}

// isNew matches packets of no established or related connection.
func isNew() []expr.Any {
	return without(&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
}

func is(key expr.MetaKey, value uint32) []expr.Any    { return compared(key, expr.CmpOpEq, value) }
func isNot(key expr.MetaKey, value uint32) []expr.Any { return compared(key, expr.CmpOpNeq, value) }

func compared(key expr.MetaKey, op expr.CmpOp, value uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Register: 1, Op: op, Data: native(value)}}
}

func hasBit(key expr.MetaKey, bit uint32) []expr.Any {
	return masked(&expr.Meta{Key: key, Register: 1}, bit, expr.CmpOpNeq)
}

func hasNoBit(key expr.MetaKey, bit uint32) []expr.Any {
	return without(&expr.Meta{Key: key, Register: 1}, bit)
}

// without matches if the loaded value has none of the bits.
func without(load expr.Any, bits uint32) []expr.Any { return masked(load, bits, expr.CmpOpEq) }

func masked(load expr.Any, bits uint32, op expr.CmpOp) []expr.Any {
	return []expr.Any{
		load,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(bits), Xor: native(0)},
		&expr.Cmp{Register: 1, Op: op, Data: native(0)},
	}
}

// native returns a number as the kernel loads it into a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// Dropping returns the node's chains that see all forwarded packets and drop them by default. The
// site must make such chains accept packets from jobs.
func Dropping() (chains []string, err error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	all, err := c.ListChains()
	if err != nil {
		if isMissing(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list the chains of nftables: %w", err)
	}
	for _, chain := range all {
		ip := chain.Table.Family == nftables.TableFamilyIPv4 || chain.Table.Family == nftables.TableFamilyINet
		forwards := chain.Hooknum != nil && *chain.Hooknum == *nftables.ChainHookForward
		if ip && forwards && chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop {
			chains = append(chains, chain.Table.Name+" "+chain.Name)
		}
	}
	return chains, nil
}
