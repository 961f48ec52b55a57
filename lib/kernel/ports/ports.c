//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A job has its node's address, and a block of the node's ports. These programs tell packets apart by their ports.
// They keep no connections.
//
//   from_job   ingress of the node's end of a job's veth: what the job sends
//   to_job     egress of that end: what from_own has judged and from_job refuses, and nothing else
//   from_wire  ingress of each uplink of the node: what comes for jobs
//   from_own   egress of lo: what the node sends to itself at a job's port
//   own_out    egress of each uplink: nobody on the node sends from a job's port
//
// The helpers need Linux 5.10.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MARK 0x2073	 // of what from_job has judged; users cannot set marks
#define FIRST_PORT 16384 // of those that jobs can have
#define GRAIN 9		 // the ports of 512 neighbors are one job's
#define ALIASES 0xc613	 // 198.19.0.0/16

// Offsets in a packet.
#define L4 20
#define INNER (L4 + 8)
#define HEADERS 160 // all that is read is before this, of each kind of interface
#define SADDR 12
#define DADDR 16

enum { ECHO = 1, FRAGMENT, SENT, DROPPED }; // SENT: a fragment by a job; DROPPED: one by the node from a job's port

// In lib/kernel/ports/maps.go, too. Addresses are in network order, ports in the host's.
struct node {
	__u32 uplink; // by which its address is reached
	__u32 slurm_uid;
	__u16 ephemeral_first, ephemeral_last;
	__u16 srun_first, srun_last; // where slurm.conf has each srun listen, or zero
};
struct job {
	__u32 addr, uid;
	__u16 first, last;
	__u32 id;
	__u8 mac[6];
	__u8 whole, pad;
	__u64 dropped; // packets that it sent from ports that are not its own
};
struct uplink {
	__u32 addr;
	__u32 header; // how many bytes a packet from it has before the IP header
	__u32 mtu;
};
struct alias {
	__u32 veth, addr;
};
struct network {
	__u32 bits, addr;
};
struct key {
	__u32 peer;
	__u16 id;
	__u8 kind, proto;
};

#define MAP(NAME, TYPE, KEY, VALUE, N, FLAGS)                                                                          \
	struct {                                                                                                       \
		__uint(type, TYPE);                                                                                    \
		__type(key, KEY);                                                                                      \
		__type(value, VALUE);                                                                                  \
		__uint(max_entries, N);                                                                                \
		__uint(map_flags, FLAGS);                                                                              \
	} NAME SEC(".maps")
MAP(node, BPF_MAP_TYPE_ARRAY, __u32, struct node, 1, 0);
MAP(whole, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1, 0); // the veth of the job that has all ports that nobody has, or 0
MAP(blocks, BPF_MAP_TYPE_ARRAY, __u32, __u32, 65536 >> GRAIN, 0); // a port, less its last bits -> a job's veth
MAP(jobs, BPF_MAP_TYPE_HASH, __u32, struct job, 256, 0);	  // by the index of its veth
MAP(uplinks, BPF_MAP_TYPE_HASH, __u32, struct uplink, 64, 0);	  // by index
MAP(locals, BPF_MAP_TYPE_HASH, __u32, __u8, 4096, BPF_F_NO_PREALLOC); // the node's addresses
MAP(services, BPF_MAP_TYPE_HASH, __u16, __u8, 256, 0);		      // the node's ports from 1024 on that jobs reach
MAP(callers, BPF_MAP_TYPE_LPM_TRIE, struct network, __u8, 16384, BPF_F_NO_PREALLOC); // who calls a job's block
MAP(denied, BPF_MAP_TYPE_LPM_TRIE, struct network, __u8, 256, BPF_F_NO_PREALLOC);     // where no job sends
MAP(aliases, BPF_MAP_TYPE_HASH, struct alias, __u32, 1 << 18, BPF_F_NO_PREALLOC);     // see alias_of
MAP(recent, BPF_MAP_TYPE_LRU_HASH, struct key, __u32, 4096, 0);			      // echoes and fragments
MAP(counts, BPF_MAP_TYPE_ARRAY, __u32, __u64, 8, 0); // dropped packets, by reason

enum reason { SOURCE, PORT, KIND, TARGET, CALLER, USER, SHADOW, SPOOFED };

struct packet {
	__u32 saddr, daddr;
	__u16 id, sport, dport;
	__u8 proto, type;
	_Bool syn, later, more; // later: a fragment that is not the first one
	_Bool options;		// the ports are not where rewrite takes them to be
};

static __always_inline int drop(__u32 reason)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &reason);

	if (n)
		__sync_fetch_and_add(n, 1);
	return TC_ACT_SHOT;
}

static __always_inline struct node *the_node(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&node, &zero);
}

// whole_veth returns the veth of the job that has all ports that nobody has, or 0.
static __always_inline __u32 whole_veth(void)
{
	__u32 zero = 0, *veth = bpf_map_lookup_elem(&whole, &zero);

	return veth ? *veth : 0;
}

// sum returns the checksum of the internet (RFC 1071) for a difference.
static __always_inline __u16 sum(__s64 of)
{
	__u32 n = of;

	n = (n & 0xffff) + (n >> 16);
	n = (n & 0xffff) + (n >> 16);
	return ~n;
}

// job_at returns the veth of the job that has a port, or 0.
static __always_inline __u32 job_at(__u16 port)
{
	__u32 at = port >> GRAIN, *veth = bpf_map_lookup_elem(&blocks, &at);

	return veth ? *veth : 0;
}

static __always_inline _Bool is_local(__u32 addr) { return bpf_map_lookup_elem(&locals, &addr) != NULL; }

static __always_inline _Bool is_service(__u16 port)
{
	return port < 1024 || bpf_map_lookup_elem(&services, &port) != NULL;
}

static __always_inline _Bool is_ephemeral(struct node *n, __u16 port)
{
	return port >= n->ephemeral_first && port <= n->ephemeral_last;
}

// is_jobs tells whether jobs can have a port, here and on other nodes of the same settings.
static __always_inline _Bool is_jobs(struct node *n, __u16 port)
{
	return port >= FIRST_PORT && !is_ephemeral(n, port);
}

// is_spare tells whether a job with the node to itself can have a port beside its block.
static __always_inline _Bool is_spare(struct node *n, __u16 port)
{
	if (is_service(port))
		return 0;
	return (port >= n->srun_first && port <= n->srun_last) || (!is_jobs(n, port) && !is_ephemeral(n, port));
}

// load reads from the IP header on. The helper looks only into the packet's linear part, where a driver can have no
// more than its first bytes (virtio_net, of a long datagram).
static __always_inline long load(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	__u32 len = skb->len;

	if (!bpf_skb_load_bytes_relative(skb, at, to, size, BPF_HDR_START_NET))
		return 0;
	if (bpf_skb_pull_data(skb, len < HEADERS ? len : HEADERS))
		return -1;
	return bpf_skb_load_bytes_relative(skb, at, to, size, BPF_HDR_START_NET);
}

// parse reads a packet of IPv4, or returns -1.
static __always_inline int parse(struct __sk_buff *skb, struct packet *p)
{
	struct iphdr ip;
	__u16 ports[2];
	__u32 l4;
	__u8 b[8];

	// The kernel takes a VLAN of number 0, which some networks add for its priority, for none.
	if (skb->protocol != bpf_htons(ETH_P_IP) || (skb->vlan_present && skb->vlan_tci & 0xfff) ||
	    load(skb, 0, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return -1;
	l4 = ip.ihl * 4;
	p->options = l4 != L4;
	p->saddr = ip.saddr;
	p->daddr = ip.daddr;
	p->proto = ip.protocol;
	p->id = ip.id;
	p->more = !!(ip.frag_off & bpf_htons(0x2000));
	p->later = !!(ip.frag_off & bpf_htons(0x1fff));
	if (p->later)
		return 0;
	if (ip.protocol == IPPROTO_TCP || ip.protocol == IPPROTO_UDP) {
		if (load(skb, l4, ports, sizeof(ports)))
			return -1;
		p->sport = bpf_ntohs(ports[0]);
		p->dport = bpf_ntohs(ports[1]);
		if (ip.protocol == IPPROTO_TCP) {
			if (load(skb, l4 + 13, b, 1))
				return -1;
			p->syn = (b[0] & 0x12) == 0x02;
		}
	} else if (ip.protocol == IPPROTO_ICMP) {
		if (load(skb, l4, b, sizeof(b)))
			return -1;
		p->type = b[0];
		p->sport = b[4] << 8 | b[5]; // of an echo: its identifier
	}
	return 0;
}

static __always_inline _Bool has_ports(struct packet *p)
{
	return !p->later && (p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP);
}

static __always_inline _Bool is_error(struct packet *p)
{
	return !p->later && p->proto == IPPROTO_ICMP && (p->type == 3 || p->type == 11 || p->type == 12);
}

static __always_inline __u32 remembered(__u32 peer, __u16 id, __u8 kind, __u8 proto)
{
	struct key k = { .peer = peer, .id = id, .kind = kind, .proto = proto };
	__u32 *veth = bpf_map_lookup_elem(&recent, &k);

	return veth && bpf_map_lookup_elem(&jobs, veth) ? *veth : 0;
}

static __always_inline void remember(__u32 peer, __u16 id, __u8 kind, __u8 proto, __u32 veth)
{
	struct key k = { .peer = peer, .id = id, .kind = kind, .proto = proto };

	bpf_map_update_elem(&recent, &k, &veth, BPF_ANY);
}

static __always_inline void forget(__u32 peer, __u16 id, __u8 kind, __u8 proto)
{
	struct key k = { .peer = peer, .id = id, .kind = kind, .proto = proto };

	bpf_map_delete_elem(&recent, &k);
}

// forget_echo makes the answer to an echo request of the node's own come to the node, whatever jobs have asked.
static __always_inline void forget_echo(struct packet *p)
{
	if (!p->later && p->proto == IPPROTO_ICMP && p->type == 8)
		forget(p->daddr, p->sport, ECHO, 0);
}

// forget_fragment makes what follows the first fragment of a packet for the node come to the node, too.
static __always_inline void forget_fragment(struct packet *p)
{
	if (p->more && !p->later)
		forget(p->saddr, p->id, FRAGMENT, p->proto);
}

// remember_sent makes what follows the first fragment of a job's packet leave the job, too.
static __always_inline void remember_sent(struct packet *p, __u32 peer, __u32 veth)
{
	if (p->more && !p->later)
		remember(peer, p->id, SENT, p->proto, veth);
}

// rewrite puts one address for another. header is where the packet begins in the frame.
static __always_inline void rewrite(struct __sk_buff *skb, struct packet *p, __u32 header, int at, __u32 old, __u32 new)
{
	if (!p->later && p->proto == IPPROTO_TCP)
		bpf_l4_csum_replace(skb, header + L4 + 16, old, new, BPF_F_PSEUDO_HDR | 4);
	if (!p->later && p->proto == IPPROTO_UDP)
		bpf_l4_csum_replace(skb, header + L4 + 6, old, new, BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | 4);
	bpf_l3_csum_replace(skb, header + 10, old, new, 4);
	bpf_skb_store_bytes(skb, header + at, &new, 4, 0);
}

// of_error returns the veth of the job whose packet an ICMP error answers. The packet in the error is then from the
// job's address, as the job sent it. The ICMP checksum stays right, because that of the inner header changes, too.
static __always_inline __u32 of_error(struct __sk_buff *skb, __u32 header)
{
	struct iphdr ip;
	struct job *j;
	__u16 w[4];
	__u32 veth = 0, addr;

	if (load(skb, INNER, &ip, sizeof(ip)) || ip.ihl != 5 || !is_local(ip.saddr) ||
	    ip.frag_off & bpf_htons(0x1fff) || load(skb, INNER + 20, w, sizeof(w)))
		return 0;
	if (ip.protocol == IPPROTO_TCP || ip.protocol == IPPROTO_UDP)
		veth = job_at(bpf_ntohs(w[0]));
	else if (ip.protocol == IPPROTO_ICMP)
		veth = remembered(ip.daddr, bpf_ntohs(w[2]), ECHO, 0);
	j = bpf_map_lookup_elem(&jobs, &veth);
	if (!j)
		return 0;
	addr = j->addr;
	if (addr != ip.saddr) {
		bpf_l3_csum_replace(skb, header + INNER + 10, ip.saddr, addr, 4);
		bpf_skb_store_bytes(skb, header + INNER + SADDR, &addr, 4, 0);
	}
	return veth;
}

// alias_of returns the address that stands in a job for one of its nodes' own processes, or the node that has such an
// address: the node's address itself means the job there.
static __always_inline __u32 alias_of(__u32 veth, __u32 addr)
{
	struct alias a = { .veth = veth, .addr = addr };
	__u32 *to = bpf_map_lookup_elem(&aliases, &a);

	return to ? *to : 0;
}

// is_nodes tells whether a socket of the node is at a port that a job with the node to itself would use.
static __always_inline _Bool is_nodes(struct __sk_buff *skb, __u8 proto, __u32 peer, __u16 peer_port, __u32 addr,
				      __u16 port)
{
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;

	t.ipv4.saddr = peer;
	t.ipv4.daddr = addr;
	t.ipv4.sport = bpf_htons(peer_port);
	t.ipv4.dport = bpf_htons(port);
	sk = proto == IPPROTO_TCP ? bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0)
				  : bpf_sk_lookup_udp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	bpf_sk_release(sk);
	return 1;
}

// has_whole tells whether a job has all ports that nobody has. Another one could have its veth's index by now.
static __always_inline _Bool has_whole(void)
{
	__u32 veth = whole_veth();
	struct job *j = veth ? bpf_map_lookup_elem(&jobs, &veth) : NULL;

	return j && j->whole;
}

// is_denied tells whether no job sends to an address.
static __always_inline _Bool is_denied(__u32 addr)
{
	__u32 first = bpf_ntohl(addr) >> 24;
	struct network n = { .bits = 32, .addr = addr };

	return first == 127 || first == 0 || first >= 224 || bpf_map_lookup_elem(&denied, &n) != NULL;
}

// answers_own tells whether an ICMP error of a job's answers what came for it.
static __always_inline _Bool answers_own(struct __sk_buff *skb, struct node *n, __u32 veth, struct job *j)
{
	struct iphdr ip;
	__u16 w[2], port;

	if (load(skb, INNER, &ip, sizeof(ip)) || ip.ihl != 5 || ip.daddr != j->addr || load(skb, INNER + 20, w, 4))
		return 0;
	port = bpf_ntohs(w[1]);
	return (port >= j->first && port <= j->last) || (whole_veth() == veth && is_spare(n, port));
}

// may_answer tells whether a job may send to a process of one of its nodes. Of a datagram nobody knows whether it is an
// answer. So only a job that has the node to itself sends some, to other nodes.
static __always_inline _Bool may_answer(struct node *n, __u32 veth, struct packet *p, __u32 to)
{
	if (p->proto == IPPROTO_UDP && !p->later)
		return whole_veth() == veth && is_spare(n, p->sport) && !is_local(to);
	return p->proto == IPPROTO_TCP || p->later;
}

// An ICMP error, and what it says of the packet that it answers.
struct answer {
	struct iphdr ip;
	__u8 type, code;
	__u16 check;
	__u32 unused;
	__u8 of[40]; // of UDP, 28
};

// refuse drops a job's packet, and answers as a router that forbids it: connect fails at once (EHOSTUNREACH).
static __always_inline int refuse(struct __sk_buff *skb, struct job *j, struct packet *p, __u32 reason)
{
	struct answer a = { .ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_ICMP }, .type = 3, .code = 13 };
	const __u32 room = offsetof(struct answer, of);

	if (p->proto == IPPROTO_TCP ? load(skb, 0, a.of, sizeof(a.of)) : load(skb, 0, a.of, INNER))
		return drop(reason);
	if (bpf_skb_adjust_room(skb, room, BPF_ADJ_ROOM_MAC, 0)) // it cannot shorten a packet that the kernel splits later (GSO)
		return drop(reason);
	a.ip.tot_len = bpf_htons(room + (p->proto == IPPROTO_TCP ? sizeof(a.of) : INNER)); // the kernel cuts off the rest
	a.ip.saddr = p->daddr;
	a.ip.daddr = p->saddr;
	a.ip.check = sum(bpf_csum_diff(NULL, 0, (__u32 *)&a.ip, sizeof(a.ip), 0));
	a.check = sum(bpf_csum_diff(NULL, 0, (__u32 *)&a.type, sizeof(a) - sizeof(a.ip), 0));
	bpf_skb_store_bytes(skb, ETH_HLEN, &a, room, 0);
	bpf_skb_store_bytes(skb, 0, &j->mac, sizeof(j->mac), 0);
	drop(reason);
	skb->mark = MARK;
	return bpf_redirect(skb->ifindex, 0);
}

// is_long tells whether a packet, or those into which it is cut, exceed an MTU. The job's routes have it, but a program
// can send by that of the veth (IP_PMTUDISC_PROBE), and not every NIC bears it.
static __always_inline _Bool is_long(struct __sk_buff *skb, struct packet *p, __u32 mtu)
{
	__u32 length = skb->len - ETH_HLEN;
	__u8 offset;

	if (skb->gso_size) {
		length = L4 + 8 + skb->gso_size;
		if (p->proto == IPPROTO_TCP) {
			if (load(skb, L4 + 12, &offset, 1))
				return 1;
			length = L4 + (offset >> 4) * 4 + skb->gso_size;
		}
	}
	return length > mtu;
}

SEC("tc/from_job")
int from_job(struct __sk_buff *skb)
{
	__u32 me = skb->ifindex, to, peer, answer = 0;
	struct job *j = bpf_map_lookup_elem(&jobs, &me);
	struct bpf_fib_lookup f = {};
	struct node *n = the_node();
	struct packet p = {};
	struct uplink *up;
	long rc;

	if (!n || !j || skb->vlan_present || parse(skb, &p) || p.options)
		return drop(KIND);
	if (p.saddr != j->addr)
		return drop(SOURCE);
	if (is_denied(p.daddr))
		return drop(TARGET);
	peer = p.daddr;
	if (p.later) {
		if (remembered(peer, p.id, SENT, p.proto) != me)
			return drop(KIND); // where it arrived it would wait in vain for the first one
		if (!p.more)
			forget(peer, p.id, SENT, p.proto);
	} else if (has_ports(&p)) {
		if ((p.sport < j->first || p.sport > j->last) &&
		    (whole_veth() != me || !j->whole || !is_spare(n, p.sport) ||
		     is_nodes(skb, p.proto, p.daddr, p.dport, p.saddr, p.sport))) {
			__sync_fetch_and_add(&j->dropped, 1);
			return refuse(skb, j, &p, PORT);
		}
	} else if (p.proto == IPPROTO_ICMP && p.type == 8) {
		remember(p.daddr, p.sport, ECHO, 0, me);
	} else if (p.proto != IPPROTO_ICMP || p.type != 3 || !answers_own(skb, n, me, j)) {
		return drop(KIND);
	}
	if (bpf_ntohl(p.daddr) >> 16 == ALIASES) { // what answers a process of one of the job's nodes
		to = alias_of(me, p.daddr);
		if (!to || p.syn || !may_answer(n, me, &p, to))
			return drop(TARGET);
		rewrite(skb, &p, ETH_HLEN, DADDR, p.daddr, to);
		p.daddr = to;
		answer = 1;
	}
	if (is_local(p.daddr)) {
		if (!answer && has_ports(&p) && !is_service(p.dport))
			return drop(TARGET);
		remember_sent(&p, peer, me);
		// As if it came by the uplink, whose address is its source: so a strict rp_filter takes it, too.
		skb->mark = MARK;
		return bpf_redirect(n->uplink, BPF_F_INGRESS);
	}
	f.family = 2; // AF_INET
	f.l4_protocol = p.proto;
	f.ipv4_src = p.saddr;
	f.ipv4_dst = p.daddr;
	f.ifindex = me;
	f.tot_len = L4; // a job's routes have the MTU; without a length the kernel compares that of the whole frame
	rc = bpf_fib_lookup(skb, &f, sizeof(f), 0);
	if (rc == BPF_FIB_LKUP_RET_FWD_DISABLED) // somebody has switched off forwarding by all interfaces
		f.ifindex = n->uplink;
	else if (rc != BPF_FIB_LKUP_RET_SUCCESS && rc != BPF_FIB_LKUP_RET_NO_NEIGH)
		return drop(TARGET);
	to = f.ifindex;
	up = bpf_map_lookup_elem(&uplinks, &to);
	if (!up) // another job's veth, a container's bridge
		return drop(TARGET);
	if (is_long(skb, &p, up->mtu))
		return drop(KIND);
	if (up->addr != p.saddr)
		rewrite(skb, &p, ETH_HLEN, SADDR, p.saddr, up->addr);
	remember_sent(&p, peer, me);
	skb->mark = MARK;
	return bpf_redirect_neigh(to, NULL, 0, 0);
}

// may_call tells whether a TCP connection to a job's block comes from a host of Slurm's or another of the job's nodes, and
// not from a job there.
static __always_inline _Bool may_call(struct node *n, __u32 veth, struct packet *p)
{
	struct network from = { .bits = 32, .addr = p->saddr };

	if (!bpf_map_lookup_elem(&callers, &from) &&
	    (bpf_ntohl(p->saddr) >> 16 == ALIASES || !alias_of(veth, p->saddr)))
		return 0;
	return !is_jobs(n, p->sport);
}

SEC("tc/from_wire")
int from_wire(struct __sk_buff *skb)
{
	__u32 me = skb->ifindex, to = 0, as = 0, header, addr;
	struct uplink *up = bpf_map_lookup_elem(&uplinks, &me);
	struct node *n = the_node();
	struct packet p = {};
	struct job *j;

	if (skb->mark == MARK) {
		skb->mark = 0;
		bpf_skb_change_type(skb, 0); // PACKET_HOST, whatever its MAC is
		return TC_ACT_UNSPEC;
	}
	if (!n || !up || parse(skb, &p))
		return TC_ACT_UNSPEC;
	header = up->header;
	if (is_local(p.saddr))
		return drop(SPOOFED); // the kernel drops it, too, but for accept_local
	if (!is_local(p.daddr))
		return TC_ACT_UNSPEC;
	if (p.later) {
		to = remembered(p.saddr, p.id, FRAGMENT, p.proto);
	} else if (has_ports(&p)) {
		to = job_at(p.dport);
		if (to && p.syn && !may_call(n, to, &p))
			return drop(CALLER);
		if (!to && has_whole() && is_spare(n, p.dport) &&
		    !is_nodes(skb, p.proto, p.saddr, p.sport, p.daddr, p.dport))
			to = whole_veth();
		if (to && (p.proto == IPPROTO_TCP || !job_at(p.dport)) && !is_service(p.sport))
			as = alias_of(to, p.saddr); // a process of a node: the job takes its address for the job there
	} else if (p.proto == IPPROTO_ICMP && p.type == 0) {
		to = remembered(p.saddr, p.sport, ECHO, 0);
	} else if (is_error(&p) && !p.options) {
		to = of_error(skb, header);
	}
	j = bpf_map_lookup_elem(&jobs, &to);
	if (!j) {
		forget_fragment(&p);
		return TC_ACT_UNSPEC;
	}
	if (p.options)
		return drop(KIND);
	if (p.more && !p.later)
		remember(p.saddr, p.id, FRAGMENT, p.proto, to);
	addr = j->addr;
	if (p.daddr != addr)
		rewrite(skb, &p, header, DADDR, p.daddr, addr);
	if (as)
		rewrite(skb, &p, header, SADDR, p.saddr, as);
	return bpf_redirect_peer(to, 0);
}

// may_call_own tells whether a process of the node may call one of its jobs: root's, Slurm's, and the job's user's.
static __always_inline _Bool may_call_own(struct __sk_buff *skb, struct node *n, struct job *j)
{
	__u32 uid = bpf_get_socket_uid(skb);

	return uid == 0 || uid == n->slurm_uid || uid == j->uid;
}

SEC("tc/from_own")
int from_own(struct __sk_buff *skb)
{
	struct node *n = the_node();
	struct packet p = {};
	__u32 to = 0, as;
	struct job *j;

	if (!n || parse(skb, &p) || !is_local(p.daddr) || bpf_ntohl(p.daddr) >> 24 == 127)
		return TC_ACT_UNSPEC;
	if (has_ports(&p)) {
		if (job_at(p.sport))
			return drop(SHADOW); // what a service answered would reach the job
		to = job_at(p.dport);
		j = bpf_map_lookup_elem(&jobs, &to);
		if (!j)
			return TC_ACT_UNSPEC;
		if (p.options || p.daddr != j->addr || (p.syn && !may_call_own(skb, n, j)))
			return drop(USER);
		if (!is_service(p.sport)) {
			as = alias_of(to, p.saddr);
			if (p.proto != IPPROTO_TCP || !as)
				return drop(USER);
			rewrite(skb, &p, ETH_HLEN, SADDR, p.saddr, as);
		} else if (p.proto == IPPROTO_UDP && p.sport > 1023 && !may_call_own(skb, n, j)) {
			return drop(USER); // a user can have the port, whatever service has it by TCP
		}
	} else if (p.later) {
		to = remembered(p.saddr, p.id, FRAGMENT, p.proto);
	} else if (p.proto == IPPROTO_ICMP && p.type == 0) {
		to = remembered(p.saddr, p.sport, ECHO, 0);
	} else if (is_error(&p) && !p.options) {
		to = of_error(skb, ETH_HLEN);
	} else {
		forget_echo(&p);
	}
	j = bpf_map_lookup_elem(&jobs, &to);
	if (!j) {
		forget_fragment(&p);
		return TC_ACT_UNSPEC;
	}
	if (p.options)
		return drop(KIND);
	if (p.more && !p.later)
		remember(p.saddr, p.id, FRAGMENT, p.proto, to);
	bpf_skb_store_bytes(skb, 0, &j->mac, sizeof(j->mac), 0);
	skb->mark = MARK;
	return bpf_redirect(to, 0);
}

// Any user can bind a socket to the job's end on the node, and send to all who listen there.
SEC("tc/to_job")
int to_job(struct __sk_buff *skb)
{
	if (skb->mark != MARK)
		return drop(USER);
	skb->mark = 0;
	return TC_ACT_UNSPEC;
}

SEC("tc/own_out")
int own_out(struct __sk_buff *skb)
{
	struct packet p = {};
	__u32 veth;

	if (skb->mark == MARK) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	// A macvlan of the node's containers, and who is behind the node, has all ports of its own address.
	if (parse(skb, &p) || !is_local(p.saddr))
		return TC_ACT_UNSPEC;
	forget_echo(&p);
	if (p.later) {
		// The list may lose the entry, and then the fragment leaves: others of the node's must not be lost.
		if (!remembered(p.daddr, p.id, DROPPED, p.proto))
			return TC_ACT_UNSPEC;
		if (!p.more)
			forget(p.daddr, p.id, DROPPED, p.proto);
		return drop(SHADOW);
	}
	veth = has_ports(&p) ? job_at(p.sport) : 0;
	if (p.more && veth)
		remember(p.daddr, p.id, DROPPED, p.proto, veth);
	else if (p.more)
		forget(p.daddr, p.id, DROPPED, p.proto);
	return veth ? drop(SHADOW) : TC_ACT_UNSPEC;
}

// The object file has the sum of its source and the version of its compiler (object_test.go).
#ifndef SUM
#define SUM ""
#endif
#define TEXT_OF(X) #X
#define TEXT(X) TEXT_OF(X)
const char made_of[] SEC("source") = SUM;
const char made_by[] SEC("compiler") =
	TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__);
const char licensed[] SEC("license") = "Dual BSD/GPL";
