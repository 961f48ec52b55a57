package nft

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"gresnet/lib/slurm/account"
)

// Job is a job's uplink, as the node sees it.
type Job struct {
	Address netip.Addr
	Index   uint32 // of the uplink's end on the node
	Bit     uint32 // is set in the index of each job's uplink, and of no other on the node
	UID     uint32
	Most    uint32 // bounds the connections that the job begins, at one time
	Users   Users
	Inbound *Inbound

	Identity *Identity // nil: the job is known by Address
}

// Users are those who may fill the kernel's list of connections from the node itself.
type Users struct {
	account.Users
	Most uint32 // bounds the connections of each at one time
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
//	                      ct state established,related accept;
//	                      skuid 0 accept;
//	                      skuid OWN … add @users { skuid ct count over USERS } drop; …
//	                      skuid SUBUID add @users { 4294967295 ct count over USERS } drop; …
//	                      oif INDEX skuid UID accept;
//	                      oif INDEX drop;
//	                      skuid 0-4294967295 accept;
//	                      meta cgroup 0-4294967295 socket cgroupv2 level 1 … ct count over USERS drop; } }'
//
// With Identity there are more rules, and before forward's second one
//
//	oif INDEX ct status & dnat != 0 tcp dport FIRST-LAST accept; …
//
// With Inbound, forward's second rule also has the condition ct status & dnat == 0, there is no
// third rule, and addInbound adds its chain.
//
// On the node, root's processes and the user's own reach the job: slurmstepd does so for srun.
//
// The kernel has one list of connections for the node and all of its jobs, so neither a job nor a
// user on the node may fill it (addUsers). If the table exists, LeadOut leaves it as it is.
func LeadOut(table string, j Job) error {
	err := leadOut(table, j, addKernels)
	if isMissing(err) {
		err = leadOut(table, j, func(*nftables.Conn, *nftables.Chain, uint32) {}) // before Linux 5.13
	}
	if err != nil {
		return fmt.Errorf("let %s reach what the node reaches: %w", j.Address, err)
	}
	return nil
}

type addition func(*nftables.Conn, *nftables.Chain, uint32)

func leadOut(table string, j Job, kernels addition) error {
	var failed error
	err := create(nftables.TableFamilyIPv4, table, func(c *nftables.Conn, t *nftables.Table) {
		postrouting := addMasquerade(c, t, j.Address)
		var nodes *nftables.Set
		if j.Identity != nil {
			if nodes, failed = j.Identity.add(c, postrouting, j); failed == nil {
				failed = fill(c, nodes, j.Identity.Nodes)
			}
		}
		prerouting := filter(c, t, "prerouting", nftables.ChainHookPrerouting)
		drop(c, prerouting, is(expr.MetaKeyIIF, j.Index), isNew(), []expr.Any{over(j.Most)})
		forward := filter(c, t, "forward", nftables.ChainHookForward)
		drop(c, forward, is(expr.MetaKeyIIF, j.Index), masked(meta(expr.MetaKeyOIF), j.Bit, expr.CmpOpNeq))
		j.acceptCalls(c, forward)
		if j.Inbound != nil {
			addInbound(c, t, j)
			drop(c, forward, is(expr.MetaKeyOIF, j.Index), isNew(), without(status(), statusDNAT))
		} else {
			drop(c, forward, is(expr.MetaKeyOIF, j.Index), isNew())
			// These are connections to a job that had the address before.
			drop(c, forward, is(expr.MetaKeyOIF, j.Index), isOriginal(), masked(status(), statusDNAT, expr.CmpOpNeq))
		}
		failed = cmp.Or(failed, addOutput(c, t, j, kernels))
	})
	return cmp.Or(failed, err)
}

// addOutput adds the chain for what begins on the node.
func addOutput(c *nftables.Conn, t *nftables.Table, j Job, kernels addition) error {
	output := filter(c, t, "output", nftables.ChainHookOutput)
	add(c, output, accept, isOld())
	add(c, output, accept, is(expr.MetaKeySKUID, 0))
	users := &nftables.Set{Table: t, Name: "users", KeyType: nftables.TypeUID, Dynamic: true}
	if err := c.AddSet(users, nil); err != nil {
		return err
	}
	addUsers(c, output, users, j)
	add(c, output, accept, is(expr.MetaKeyOIF, j.Index), is(expr.MetaKeySKUID, j.UID))
	drop(c, output, is(expr.MetaKeyOIF, j.Index))
	kernels(c, output, j.Users.Most)
	return nil
}

// addUsers bounds the connections of each user. The system's services are not counted: users share
// them, so one user's questions would use up the resolver's share and lock out all others. A user's
// subuids are many, so all users' subuids count as one user. The job's user counts as a user,
// whatever the uid.
func addUsers(c *nftables.Conn, output *nftables.Chain, set *nftables.Set, j Job) {
	const allSubuids = 0xffffffff // nobody's uid
	each := func(conditions []expr.Any, key expr.Any) {
		drop(c, output, conditions, []expr.Any{key}, countedIn(set, j.Users.Most))
	}
	uid := meta(expr.MetaKeySKUID)
	own := j.Users.Own
	if !j.Users.Has(j.UID) {
		own = append([]account.Range{{First: j.UID, Last: j.UID}}, own...)
	}
	for _, r := range own {
		each(inRange(uid, r), uid)
	}
	for _, r := range j.Users.Subuid {
		each(slices.Concat(isNot(expr.MetaKeySKUID, j.UID), inRange(uid, r)), &expr.Immediate{Register: 1, Data: native(allSubuids)})
	}
}

// addKernels bounds the connections of sockets without a file, together, that processes have the
// kernel make: those beneath AF_SMC and AF_RXRPC. They have no skuid. A process is below the root
// of the cgroup tree, where the kernel's own threads are: those of Lustre and Ceph, say. What has no
// socket at all is a tunnel's.
func addKernels(c *nftables.Conn, output *nftables.Chain, most uint32) {
	// A rule ends if it loads what the packet does not have.
	add(c, output, accept, []expr.Any{meta(expr.MetaKeySKUID)})
	drop(c, output, []expr.Any{
		meta(expr.MetaKeyCGROUP),
		&expr.Socket{Key: expr.SocketKeyCgroupv2, Level: 1, Register: 1},
		over(most),
	})
}

// inRange matches uids. The kernel compares two values as bytes, so the first must come first.
func inRange(load expr.Any, r account.Range) []expr.Any {
	return []expr.Any{
		load,
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: binary.BigEndian.AppendUint32(nil, r.First), ToData: binary.BigEndian.AppendUint32(nil, r.Last)},
	}
}

// acceptCalls lets calls pass. An older connection to a job that had the address before is none of
// this job's, which answers it with a reset.
func (j Job) acceptCalls(c *nftables.Conn, forward *nftables.Chain) {
	if j.Identity == nil || j.Identity.Calls == nil {
		return
	}
	for _, p := range j.Identity.Calls.Ports {
		add(c, forward, accept, is(expr.MetaKeyOIF, j.Index), masked(status(), statusDNAT, expr.CmpOpNeq), tcp(p[0], p[1]))
	}
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
		drop(c, forward, is(expr.MetaKeyIIF, index), without(meta(expr.MetaKeyOIF), bit), isNew(), without(status(), statusDNAT))
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

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: 1} }

func status() expr.Any { return &expr.Ct{Key: expr.CtKeySTATUS, Register: 1} }

// isOriginal matches packets in the direction of the connection's first packet.
func isOriginal() []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, compare(expr.CmpOpEq, []byte{0})}
}

func addMasquerade(c *nftables.Conn, t *nftables.Table, from netip.Addr) *nftables.Chain {
	chain := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	add(c, chain, nil, source(from), []expr.Any{&expr.Masq{}})
	return chain
}

func filter(c *nftables.Conn, t *nftables.Table, name string, hook *nftables.ChainHook) *nftables.Chain {
	return c.AddChain(&nftables.Chain{
		Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
	})
}

// drop adds a rule that drops packets which meet all conditions.
func drop(c *nftables.Conn, chain *nftables.Chain, conditions ...[]expr.Any) {
	add(c, chain, &expr.Verdict{Kind: expr.VerdictDrop}, conditions...)
}

// isNew matches packets of no established or related connection, and isOld the others.
func isNew() []expr.Any { return without(state(), old) }
func isOld() []expr.Any { return masked(state(), old, expr.CmpOpNeq) }

const old = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED

func state() expr.Any { return &expr.Ct{Key: expr.CtKeySTATE, Register: 1} }

func is(key expr.MetaKey, value uint32) []expr.Any    { return compared(key, expr.CmpOpEq, value) }
func isNot(key expr.MetaKey, value uint32) []expr.Any { return compared(key, expr.CmpOpNeq, value) }

func compared(key expr.MetaKey, op expr.CmpOp, value uint32) []expr.Any {
	return []expr.Any{meta(key), compare(op, native(value))}
}

// without matches if the loaded value has none of the bits.
func without(load expr.Any, bits uint32) []expr.Any { return masked(load, bits, expr.CmpOpEq) }

func masked(load expr.Any, bits uint32, op expr.CmpOp) []expr.Any {
	return []expr.Any{
		load,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(bits), Xor: native(0)},
		compare(op, native(0)),
	}
}

// native returns a number as the kernel loads it into a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
