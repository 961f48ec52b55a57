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

	"gresnet/lib/base/account"
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

	// Ports are those, from and to, from which it sends (Translate). No other job and none of the node's
	// programs has them then. Zero: it leaves by any, at random.
	Ports [2]int
	Root  [][2]int // the ports, from and to, at which root's processes on the node reach it by TCP

	Shut     []int // TCP ports that it does not reach beyond the node
	ShutHere bool  // nor on the node

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
//	  ct timeout short  { protocol tcp; policy = { time_wait : 1, close : 1 } }
//	  chain prerouting  { type filter hook prerouting priority filter;
//	                      iif INDEX ct state & (established | related) == 0 ct count over MOST drop;
//	                      iif INDEX ct state & (established | related) == 0 tcp … limit rate over MOST/2/second drop;
//	                      iif INDEX ct state & (established | related) == 0 tcp sport < FIRST drop; … sport > LAST …; … udp …;
//	                      iif INDEX tcp … ct timeout set short; }
//	  chain taken       { type filter hook input priority filter;
//	                      ip daddr 127.0.0.0/8 accept; ip daddr >= 224.0.0.0 accept;
//	                      tcp dport PORTS tcp flags & (fin | syn | rst | ack) == syn drop;
//	                      udp dport PORTS ct state & (established | related) == 0 drop; }
//	  chain shut        { type filter hook input priority filter; iif INDEX tcp dport SHUT reject with tcp reset; … }
//	  chain forward     { type filter hook forward priority filter;
//	                      iif INDEX tcp dport SHUT reject with tcp reset; …
//	                      iif INDEX oif & BIT != 0 drop;
//	                      oif INDEX ct state & (established | related) == 0 drop;
//	                      oif INDEX ct direction original ct status & dnat != 0 drop; }
//	  set users         { type uid; flags dynamic; }
//	  set rates         { type uid; flags dynamic; }
//	  chain output      { type filter hook output priority filter;
//	                      ct state established,related accept;
//	                      oif INDEX skuid 0 tcp dport ROOT accept; …
//	                      oif != INDEX skuid 0 accept;
//	                      ip saddr != 127.0.0.0/8 tcp sport PORTS drop; … udp …
//	                      skuid OWN … add @users { skuid ct count over USERS } drop; …
//	                      skuid SUBUID add @users { 4294967295 ct count over USERS } drop; …
//	                      tcp … skuid OWN … add @rates { skuid limit rate over USERS/2/second } drop; … SUBUID …
//	                      tcp … ct timeout set short;
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
// On the node, the user's own processes reach the job, and root's at some ports: slurmstepd does so for
// srun. It calls where a message of a user's says.
//
// PORTS are the job's, whoever listens there on the node: without that, a late answer to the job, or a
// connection that the node's list takes for another's, would reach another user's socket. Nobody on the
// node sends from there, or the list could have the job's callers in a connection of theirs.
//
// The kernel has one list of connections for the node and all of its jobs, so neither a job nor a
// user on the node may fill it (addUsers). ct count does not count a connection that has ended, which stays
// on the list for two minutes otherwise. So these end after a second, and there are so many new ones in a
// second and no more. If the table exists, LeadOut leaves it as it is.
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
		postrouting := j.addMasquerade(c, t)
		var nodes *nftables.Set
		if j.Identity != nil {
			if nodes, failed = j.Identity.add(c, postrouting, j); failed == nil {
				failed = fill(c, nodes, j.Identity.Nodes)
			}
		}
		prerouting := filter(c, t, "prerouting", nftables.ChainHookPrerouting)
		drop(c, prerouting, is(expr.MetaKeyIIF, j.Index), isNew(), []expr.Any{over(j.Most)})
		drop(c, prerouting, is(expr.MetaKeyIIF, j.Index), isNew(), isTCP(), []expr.Any{oftener(j.Most)})
		j.holdPorts(c, prerouting)
		addShort(c, t)
		add(c, prerouting, nil, is(expr.MetaKeyIIF, j.Index), endsShort())
		j.addTaken(c, t)
		forward := filter(c, t, "forward", nftables.ChainHookForward)
		j.shut(c, forward)
		if j.ShutHere {
			j.shut(c, filter(c, t, "shut", nftables.ChainHookInput))
		}
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
	for _, p := range j.Root {
		add(c, output, accept, is(expr.MetaKeyOIF, j.Index), is(expr.MetaKeySKUID, 0), tcp(p[0], p[1]))
	}
	add(c, output, accept, isNot(expr.MetaKeyOIF, j.Index), is(expr.MetaKeySKUID, 0))
	if j.Ports[0] > 0 {
		for _, above := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			drop(c, output, loopback(sourceAddress, expr.CmpOpNeq), protocol(expr.CmpOpEq, above), ports(sourcePort, j.Ports))
		}
	}
	users := &nftables.Set{Table: t, Name: "users", KeyType: nftables.TypeUID, Dynamic: true}
	rates := &nftables.Set{Table: t, Name: "rates", KeyType: nftables.TypeUID, Dynamic: true}
	for _, set := range []*nftables.Set{users, rates} {
		if err := c.AddSet(set, nil); err != nil {
			return err
		}
	}
	addUsers(c, output, j, nil, countedIn(users, over(j.Users.Most)))
	addUsers(c, output, j, isTCP(), countedIn(rates, oftener(j.Users.Most)))
	add(c, output, nil, endsShort())
	add(c, output, accept, is(expr.MetaKeyOIF, j.Index), is(expr.MetaKeySKUID, j.UID))
	drop(c, output, is(expr.MetaKeyOIF, j.Index))
	kernels(c, output, j.Users.Most)
	return nil
}

// addUsers drops what meets some conditions and is beyond a bound that is each user's. The system's services are
// not counted: users share them, so one user's questions would use up the resolver's share and lock out all others. A user's
// subuids are many, so all users' subuids count as one user. The job's user counts as a user,
// whatever the uid.
func addUsers(c *nftables.Conn, output *nftables.Chain, j Job, conditions, beyond []expr.Any) {
	const allSubuids = 0xffffffff // nobody's uid
	each := func(who []expr.Any, key expr.Any) {
		drop(c, output, conditions, who, []expr.Any{key}, beyond)
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
	if j.Identity != nil && j.Identity.Calls != nil {
		add(c, forward, accept, is(expr.MetaKeyOIF, j.Index), masked(status(), statusDNAT, expr.CmpOpNeq), tcp(j.Ports[0], j.Ports[1]))
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

// oftener matches a packet that would begin more connections in a second than half of most. So many may begin at once.
func oftener(most uint32) expr.Any {
	half := max(most/2, 1)
	return &expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(half), Over: true, Unit: expr.LimitTimeSecond, Burst: half}
}

// countedIn has a bound for each value of the register that a rule has loaded last.
func countedIn(set *nftables.Set, bound expr.Any) []expr.Any {
	return []expr.Any{&expr.Dynset{SrcRegKey: 1, SetName: set.Name, SetID: set.ID, Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{bound}}}
}

// short is the name of the timeouts of connections that leave the kernel's list soon after their end.
const short = "short"

func init() {
	// The library sends its own idea of the others, too. The node's are to hold.
	clear(expr.CtStateTCPTimeoutDefaults)
}

func addShort(c *nftables.Conn, t *nftables.Table) {
	c.AddObj(&nftables.NamedObj{Table: t, Name: short, Type: nftables.ObjTypeCtTimeout, Obj: &expr.CtTimeout{
		L3Proto: unix.NFPROTO_IPV4, L4Proto: unix.IPPROTO_TCP,
		Policy: expr.CtStatePolicyTimeout{expr.CtStateTCPTIMEWAIT: 1, expr.CtStateTCPCLOSE: 1},
	}})
}

func endsShort() []expr.Any {
	return append(isTCP(), &expr.Objref{Type: unix.NFT_OBJECT_CT_TIMEOUT, Name: short})
}

// addTaken keeps from the node's own sockets what comes for the job's ports.
func (j Job) addTaken(c *nftables.Conn, t *nftables.Table) {
	if j.Ports[0] == 0 {
		return
	}
	taken := filter(c, t, "taken", nftables.ChainHookInput)
	add(c, taken, accept, loopback(destinationAddress, expr.CmpOpEq))
	add(c, taken, accept, address(destinationAddress, expr.CmpOpGte, netip.AddrFrom4([4]byte{224})))
	drop(c, taken, isTCP(), ports(destinationPort, j.Ports), begins())
	drop(c, taken, protocol(expr.CmpOpEq, unix.IPPROTO_UDP), ports(destinationPort, j.Ports), isNew())
}

// statusDNAT is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
const statusDNAT = 1 << 5

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: 1} }

func status() expr.Any { return &expr.Ct{Key: expr.CtKeySTATUS, Register: 1} }

// isOriginal matches packets in the direction of the connection's first packet.
func isOriginal() []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, compare(expr.CmpOpEq, []byte{0})}
}

// shut refuses connections to ports that the job is not to reach.
func (j Job) shut(c *nftables.Conn, chain *nftables.Chain) {
	for _, p := range j.Shut {
		add(c, chain, nil, is(expr.MetaKeyIIF, j.Index), tcp(p, p), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	}
}

// holdPorts drops what a job sends from other ports than its own. They may be a service's of the node, and
// that would lose its callers' packets to the job.
func (j Job) holdPorts(c *nftables.Conn, prerouting *nftables.Chain) {
	if j.Ports[0] == 0 {
		return
	}
	for _, above := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		begun := slices.Concat(is(expr.MetaKeyIIF, j.Index), isNew(), protocol(expr.CmpOpEq, above))
		drop(c, prerouting, begun, port(sourcePort, expr.CmpOpLt, j.Ports[0]))
		drop(c, prerouting, begun, port(sourcePort, expr.CmpOpGt, j.Ports[1]))
	}
}

func (j Job) addMasquerade(c *nftables.Conn, t *nftables.Table) *nftables.Chain {
	chain := c.AddChain(&nftables.Chain{
		Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	add(c, chain, nil, source(j.Address), []expr.Any{&expr.Masq{FullyRandom: j.Ports[0] == 0}})
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
