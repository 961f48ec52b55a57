package invariant

import (
	"slices"

	"gresnet/test/guest/vm"
)

// setting is one thing that an administrator may give an interface, as it is not by itself.
// Commands are the shell's, with $N for the interface, $I for its number, $D for its RDMA
// device, and $M and $Q for the hardware address and the queue length that it had.
type setting struct {
	name       string
	on         string // the kind of interface: "roce", "ib", or "" for both
	give, take string // take is what takes away all that give gave
	shows      string // a regular expression of what tells of it in the whole picture, with $N, $I and $D
	row        string // words of its row in docs/restore.md
	batch      int    // those of one batch are given together; of two that exclude each other, one waits
	alone      bool   // the prolog refuses an HCA that has it, so it is tried alone
	apart      bool   // the kills at random do not have it: it does not come back, as its row says, or others do not with it
}

const eth, ipoib = "roce", "ib"

// ownIPv6Again has the kernel make IPv6 again: nothing else takes a secret away, or makes
// a link local address again.
const ownIPv6Again = "ip link set $N arp on; ip link set $N addrgenmode eui64; m=$(cat /sys/class/net/$N/mtu); ip link set $N mtu 1200; ip link set $N mtu $m"

// settings are all that can be set, each once.
var settings = slices.Concat(links, drivers, addresses, routes, rules, neighbors, sysctls, qdiscs, dcb, stacked, rdmas, byOthers, refusals)

// links are attributes of interfaces.
var links = []setting{
	{name: "MTU", on: eth, give: "ip link set $N mtu 4321", take: "ip link set $N mtu 9000", shows: `^ip -d link show: $N: .* mtu 4321 `, row: "MTU, MAC"},
	{name: "MTU of IPoIB", on: ipoib, give: "ip link set $N mtu 1500", take: "ip link set $N mtu 4092", shows: `^ip -d link show: $N: .* mtu 1500 `, row: "MTU, MAC"},
	{name: "hardware address", on: eth, give: "ip link set $N address 02:11:22:33:44:0$I", take: "ip link set $N address $M", shows: `^/sys/class/net/$N/address 02:11:22:33:44`, row: "MTU, MAC"},
	{name: "broadcast address", on: eth, give: "ip link set $N brd 02:ff:ff:ff:ff:0$I", take: "ip link set $N brd ff:ff:ff:ff:ff:ff", shows: `^/sys/class/net/$N/broadcast 02:ff`, row: "link layer broadcast address"},
	{name: "queue length", give: "ip link set $N txqueuelen 333", take: "ip link set $N txqueuelen $Q", shows: `^/sys/class/net/$N/tx_queue_len 333`, row: "group, transmit queue length"},
	{name: "group", give: "ip link set $N group 7", take: "ip link set $N group 0", shows: `^/sys/class/net/$N/netdev_group 7`, row: "group, transmit queue length"},
	{name: "alias", give: "ip link set $N alias \"rail $I\"", take: "ip link set $N alias ''", shows: `^/sys/class/net/$N/ifalias rail`, row: "alternative names, alias"},
	{name: "alternative names", give: "ip link property add dev $N altname alt$I altname a-long-alternative-name-of-number$I", take: "ip link property del dev $N altname alt$I altname a-long-alternative-name-of-number$I", shows: `^ip -d link show: $N: .* altname alt$I`, row: "alternative names, alias"},
	{name: "alternative name that is not UTF-8", give: `ip link property add dev $N altname "$(printf 'n\351')$I"`, take: `ip link property del dev $N altname "$(printf 'n\351')$I"`, shows: `^ip -d link show: $N: .* altname n.$I`, row: "alternative names, alias"},
	{name: "promiscuous", give: "ip link set $N promisc on", take: "ip link set $N promisc off", shows: `^ip -d link show: $N: .*PROMISC`, row: "promisc, allmulticast, multicast"},
	{name: "all multicast", give: "ip link set $N allmulticast on", take: "ip link set $N allmulticast off", shows: `^ip -d link show: $N: .*ALLMULTI`, row: "promisc, allmulticast, multicast"},
	{name: "no multicast", give: "ip link set $N multicast off", take: "ip link set $N multicast on", shows: `^ip -d link show: $N: <(BROADCAST|ALLMULTI|PROMISC|NOTRAILERS|DYNAMIC|UP|,)+>`, row: "promisc, allmulticast, multicast"},
	{name: "dynamic", give: "ip link set $N dynamic on", take: "ip link set $N dynamic off", shows: `^ip -d link show: $N: .*DYNAMIC`, row: "promisc, allmulticast, multicast"},
	{name: "trailers", give: "ip link set $N trailers off", take: "ip link set $N trailers on", shows: `^ip -d link show: $N: .*NOTRAILERS`, row: "promisc, allmulticast, multicast"},
	{name: "no ARP", give: "ip link set $N arp off", take: "ip link set $N arp on", shows: `^ip -d link show: $N: .*NOARP`, row: "noarp", batch: 1},
	{name: "dormant by itself", apart: true, give: "ip link set $N mode dormant", take: "ip link set $N mode default", shows: `^ip -d link show: $N: .* mode DORMANT`, row: "link mode", batch: 1},
	{name: "state that a supplicant gave", on: eth, batch: 1, apart: true, give: "true", take: "true", shows: `^(/sys/class/net/$N/operstate up|link .*"ifname":"$N".*"operstate":"UP")`, row: "state that a supplicant gave"},
	{name: "GSO sizes", give: "ip link set $N gso_max_size 32768 gso_max_segs 1000", take: "ip link set $N gso_max_size 65536 gso_max_segs 65535", shows: `^ip -d link show: $N: .* gso_max_size 32768 gso_max_segs 1000`, row: "GSO and GRO sizes"},
	{name: "GRO size", give: "ip link set $N gro_max_size 32768", take: "ip link set $N gro_max_size 65536", shows: `^ip -d link show: $N: .* gro_max_size 32768`, row: "GSO and GRO sizes"},
	{name: "down by protocol", give: "ip link set $N protodown on", take: "ip link set $N protodown off", shows: `^/sys/class/net/$N/proto_down 1`, row: "protodown", batch: 3},
	{name: "down", apart: true, give: "ip link set $N down", take: "ip link set $N up", shows: `^ip -d link show: $N: <[^>]*MULTICAST>`, row: "up or down", batch: 3},
	{name: "IPv6 interface identifier: none", give: "ip link set $N addrgenmode none", take: "ip link set $N addrgenmode eui64", shows: `^/proc/sys/net/ipv6/conf/$N/addr_gen_mode 1$`, row: "stable_secret and addr_gen_mode", batch: 4},
	{name: "IPv6 interface identifier: random", apart: true, give: "ip link set $N addrgenmode random", take: ownIPv6Again, shows: `^/proc/sys/net/ipv6/conf/$N/addr_gen_mode 3$`, row: "stable_secret and addr_gen_mode", batch: 1},
	{name: "secret that was never dealt", batch: 1, apart: true, give: "true", take: "true", shows: `^/proc/sys/net/ipv6/conf/$N/stable_secret $`, row: "a secret that was never set"},
	{name: "IPv6 token", give: "echo 1 >/proc/sys/net/ipv6/conf/$N/accept_ra; echo 0 >/proc/sys/net/ipv6/conf/all/forwarding; ip token set ::1:2:77:$I dev $N", take: "ip token set :: dev $N", shows: `^ip token show: token ::1:2:77:$I dev $N`, row: "IPv6 token"},
	{name: "multicast hardware address", apart: true, give: "ip maddr add 01:00:5e:77:77:0$I dev $N", take: "ip maddr del 01:00:5e:77:77:0$I dev $N", on: eth, shows: `^(ip maddr show: $N .*01:00:5e:77:77|bridge -d fdb show: 01:00:5e:77:77:0$I dev $N)`, row: "ip maddr add"},
	{name: "IPoIB connected mode", on: ipoib, give: "ip link set $N down; ip link set $N type ipoib mode connected; ip link set $N up", take: "ip link set $N down; ip link set $N type ipoib mode datagram; ip link set $N up", shows: `^/sys/class/net/$N/mode connected`, row: "IPoIB: mode, umcast", batch: 4},
	{name: "IPoIB user multicast", on: ipoib, give: "ip link set $N type ipoib umcast 1", take: "ip link set $N type ipoib umcast 0", shows: `^/sys/class/net/$N/umcast 1`, row: "IPoIB: mode, umcast"},
	{name: "name that somebody gave", give: "true", take: "true", shows: `^/sys/class/net/$N(\.8001)?/name_assign_type `, row: "name_assign_type"},
	{name: "a packet socket's promiscuous mode", on: eth, batch: 2, apart: true, give: `rm -f /tmp/heard; python3 -c 'import socket, struct, sys, time
s = socket.socket(17, 3, 0)
s.setsockopt(263, 1, struct.pack("iHH8s", socket.if_nametoindex(sys.argv[1]), 1, 0, b""))
open("/tmp/heard", "w")
time.sleep(9999)' $N </dev/null >/dev/null 2>&1 & echo $! >/tmp/listener; until [ -e /tmp/heard ]; do kill -0 $(cat /tmp/listener); sleep 0.1; done`, take: "kill $(cat /tmp/listener)", shows: `^(link .*"ifname":"$N".*"promiscuity":1|ip -d (link|addr) show: $N: .* promiscuity 1 |/sys/class/net/$N/flags )`, row: "packet socket"},
}

// drivers is what ethtool sets, and the files of queues.
var drivers = []setting{
	{name: "offloads", give: "ethtool -K $N gro off", take: "ethtool -K $N gro on", shows: `^ethtool -k $N: .*generic-receive-offload: off`, row: "what ethtool sets"},
	{name: "rings", give: "ethtool -G $N rx 512 tx 2048", take: "ethtool -G $N rx 1024 tx 1024", shows: `^ethtool -g $N: RX: 512|^ethtool -g $N: .*RX: 512`, row: "what ethtool sets"},
	{name: "channels", give: "ethtool -L $N combined 3", take: "ethtool -L $N combined 4; tc qdisc replace dev $N root pfifo; tc qdisc del dev $N root", shows: `^ethtool -l $N: .*Combined: 3`, row: "what ethtool sets"},
	{name: "private flags", give: "ethtool --set-priv-flags $N rx_striding_rq on", take: "ethtool --set-priv-flags $N rx_striding_rq off", shows: `^ethtool --show-priv-flags $N: .*rx_striding_rq *: on`, row: "what ethtool sets"},
	{name: "coalescing", give: "ethtool -C $N rx-usecs 16 rx-frames 8", take: "ethtool -C $N rx-usecs 0 rx-frames 0", shows: `^ethtool -c $N: .*rx-usecs: 16`, row: "what ethtool sets", on: ipoib},
	{name: "pause frames", give: "ethtool -A $N rx on tx off", take: "ethtool -A $N rx off", shows: `^ethtool -a $N: .*RX: on`, row: "what ethtool sets"},
	{name: "energy efficient Ethernet", give: "ethtool --set-eee $N eee off", take: "ethtool --set-eee $N eee on", shows: `^ethtool --show-eee $N: .*disabled`, row: "what ethtool sets"},
	{name: "forward error correction", give: "ethtool --set-fec $N encoding rs", take: "ethtool --set-fec $N encoding auto", shows: `^ethtool --show-fec $N: .*RS`, row: "what ethtool sets"},
	{name: "link speed", give: "ethtool -s $N speed 10000 autoneg off", take: "ethtool -s $N autoneg on", shows: `^ethtool $N: .*10000`, row: "what ethtool sets"},
	{name: "wake on LAN", give: "ethtool -s $N wol g", take: "ethtool -s $N wol d", shows: `^ethtool $N: .*Wake-on: g`, row: "what ethtool sets"},
	{name: "tunables", give: "ethtool --set-tunable $N rx-copybreak 300", take: "ethtool --set-tunable $N rx-copybreak 0", shows: `^ethtool --get-tunable $N .*300`, row: "what ethtool sets"},
	{name: "classification rules", give: "ethtool -N $N flow-type tcp4 dst-port 80 action 1", take: "ethtool -N $N delete 0", shows: `^ethtool -n $N: .*Filter`, row: "rules and tables for receive queues"},
	{name: "indirection table", give: "ethtool -X $N equal 2", take: "ethtool -X $N default", shows: `^ethtool -x $N: .*`, row: "rules and tables for receive queues"},
	{name: "time stamps", give: `python3 -c 'import ctypes, fcntl, socket, struct, sys
all = ctypes.create_string_buffer(struct.pack("iii", 0, 0, 1))
fcntl.ioctl(socket.socket(), 0x89b0, struct.pack("16sP16x", sys.argv[1].encode(), ctypes.addressof(all)))' $N`, take: "true", shows: `^ethtool -T $N: .*`, row: "hardware time stamps"},
	{name: "virtual functions", give: "ip link set $N vf 0 rate 100", take: "true", shows: `vf 0`, row: "SR-IOV VFs"},
	{name: "receive packet steering", give: "echo 3 >/sys/class/net/$N/queues/rx-0/rps_cpus", take: "echo 0 >/sys/class/net/$N/queues/rx-0/rps_cpus", shows: `^/sys/class/net/$N/queues/rx-0/rps_cpus 3`, row: "files of queues in /sys"},
	{name: "receive flow steering", give: "echo 128 >/sys/class/net/$N/queues/rx-0/rps_flow_cnt", take: "echo 0 >/sys/class/net/$N/queues/rx-0/rps_flow_cnt", shows: `^/sys/class/net/$N/queues/rx-0/rps_flow_cnt 128`, row: "files of queues in /sys"},
	{name: "transmit packet steering", give: "echo 2 >/sys/class/net/$N/queues/tx-0/xps_cpus", take: "echo 0 >/sys/class/net/$N/queues/tx-0/xps_cpus", on: eth, shows: `^/sys/class/net/$N/queues/tx-0/xps_cpus 2`, row: "files of queues in /sys"},
	{name: "transmit steering by receive queue", give: "echo 1 >/sys/class/net/$N/queues/tx-1/xps_rxqs", take: "echo 0 >/sys/class/net/$N/queues/tx-1/xps_rxqs", on: eth, shows: `^/sys/class/net/$N/queues/tx-1/xps_rxqs 0*1$`, row: "files of queues in /sys"},
	{name: "transmit rate", give: "echo 100 >/sys/class/net/$N/queues/tx-0/tx_maxrate", take: "echo 0 >/sys/class/net/$N/queues/tx-0/tx_maxrate", shows: `^/sys/class/net/$N/queues/tx-0/tx_maxrate 100`, row: "files of queues in /sys"},
	{name: "byte queue limits", give: "echo 54321 >/sys/class/net/$N/queues/tx-0/byte_queue_limits/limit_max; echo 3000 >/sys/class/net/$N/queues/tx-0/byte_queue_limits/hold_time; echo 123 >/sys/class/net/$N/queues/tx-0/byte_queue_limits/limit_min",
		take:  "echo 1879048192 >/sys/class/net/$N/queues/tx-0/byte_queue_limits/limit_max; echo 1000 >/sys/class/net/$N/queues/tx-0/byte_queue_limits/hold_time; echo 0 >/sys/class/net/$N/queues/tx-0/byte_queue_limits/limit_min",
		shows: `^/sys/class/net/$N/queues/tx-0/byte_queue_limits/(limit_max 54321|limit_min 123|hold_time 3000)`, row: "files of queues in /sys"},
	{name: "GRO flush timeout", give: "echo 77000 >/sys/class/net/$N/gro_flush_timeout", take: "echo 0 >/sys/class/net/$N/gro_flush_timeout", shows: `^/sys/class/net/$N/gro_flush_timeout 77000`, row: "gro_flush_timeout"},
	{name: "deferred interrupts", give: "echo 5 >/sys/class/net/$N/napi_defer_hard_irqs", take: "echo 0 >/sys/class/net/$N/napi_defer_hard_irqs", shows: `^/sys/class/net/$N/napi_defer_hard_irqs 5`, row: "gro_flush_timeout"},
	{name: "threaded NAPI", give: "echo 1 >/sys/class/net/$N/threaded", take: "echo 0 >/sys/class/net/$N/threaded", shows: `^/sys/class/net/$N/threaded 1`, row: "gro_flush_timeout"},
	{name: "runtime power management", give: "echo on >/sys/class/net/$N/power/control", take: "echo auto >/sys/class/net/$N/power/control", shows: `^/sys/class/net/$N/power/control on`, row: "threaded, power/control"},
}

var addresses = []setting{
	{name: "secondary IPv4 addresses", give: "ip addr add 10.$I.1.1/24 dev $N; ip addr add 10.$I.1.2/24 dev $N; ip addr add 10.$I.1.3/24 dev $N", take: "ip addr flush dev $N to 10.$I.1.0/24", shows: `^address of $N .*10\.$I\.1\.[123]"`, row: "IPv4 and IPv6 addresses"},
	{name: "peer and scope", give: "ip addr add 10.$I.2.1/32 peer 10.$I.2.9 dev $N scope link", take: "ip addr del 10.$I.2.1/32 peer 10.$I.2.9 dev $N", shows: `^address of $N .*10\.$I\.2\.1"`, row: "label, peer, scope"},
	{name: "label, metric, no route", give: "ip addr add 10.$I.3.1/24 dev $N label $N:x noprefixroute metric 300", take: "ip addr del 10.$I.3.1/24 dev $N", shows: `^address of $N .*10\.$I\.3\.1"`, row: "label, peer, scope"},
	{name: "lifetimes", give: "ip addr add 10.$I.4.1/24 dev $N valid_lft 5000 preferred_lft 4000; ip -6 addr add fd00:$I:4::1/64 dev $N nodad valid_lft 5000 preferred_lft 4000", take: "ip addr del 10.$I.4.1/24 dev $N; ip -6 addr del fd00:$I:4::1/64 dev $N; ip -6 route del fd00:$I:4::/64 dev $N", shows: `^address of $N .*(10\.$I\.4\.1|fd00:$I:4::1)"`, row: "lifetimes"},
	{name: "broadcast", give: "ip addr add 10.$I.9.1/24 broadcast 10.$I.9.77 dev $N", take: "ip addr del 10.$I.9.1/24 dev $N", shows: `^address of $N .*10\.$I\.9\.1"`, row: "label, peer, scope"},
	{name: "protocol of an address", give: "ip addr add 10.$I.10.1/24 dev $N proto 99", take: "ip addr del 10.$I.10.1/24 dev $N", shows: `^address of $N .*10\.$I\.10\.1"`, row: "IPv4 and IPv6 addresses"},
	{name: "IPv6 addresses", give: "ip -6 addr add fd00:$I:1::1/64 dev $N nodad; ip -6 addr add fd00:$I:1::2/64 dev $N nodad", take: "ip -6 addr del fd00:$I:1::1/64 dev $N; ip -6 addr del fd00:$I:1::2/64 dev $N", shows: `^address of $N .*fd00:$I:1::[12]"`, row: "IPv4 and IPv6 addresses"},
	{name: "IPv6 flags", give: "ip -6 addr add fd00:$I:2::1/64 dev $N nodad home mngtmpaddr; ip -6 addr add fd00:$I:3::1/64 dev $N nodad noprefixroute", take: "ip -6 addr del fd00:$I:2::1/64 dev $N; ip -6 addr del fd00:$I:3::1/64 dev $N", shows: `^address of $N .*fd00:$I:[23]::1"`, row: "label, peer, scope"},
	{name: "IPv6 peer", give: "ip -6 addr add fd00:$I:6::1 peer fd00:$I:6::9 dev $N nodad", take: "ip -6 addr del fd00:$I:6::1 peer fd00:$I:6::9 dev $N", shows: `^address of $N .*fd00:$I:6::1"`, row: "label, peer, scope"},
	{name: "group joined by its address", apart: true, give: "ip addr add 239.7.$I.1/32 dev $N autojoin", take: "ip addr del 239.7.$I.1/32 dev $N", shows: `^address of $N .*239\.7\.$I\.1"`, row: "IPv4 and IPv6 addresses"},
	{name: "link local address removed", on: eth, give: "ip -6 addr flush dev $N scope link", take: ownIPv6Again, shows: `^ip -d addr show: $N: (?:[^6]|6[^ ]|6 [^f]|6 f[^e])*$`, row: "the kernel's link local address", batch: 5},
	{name: "address label", give: "ip addrlabel add prefix fd00:$I:77::/64 dev $N label 7$I", take: "ip addrlabel del prefix fd00:$I:77::/64 dev $N label 7$I", shows: `^ip addrlabel show: .*fd00:$I:77::/64`, row: "by its index"},
}

var routes = []setting{
	{name: "gateway, source, MTU, table, by a rule", give: "ip route add 172.20.$I.0/24 via 10.$I.0.1 dev $N table 10$I src 10.$I.0.2 mtu 1400; ip rule add from 10.$I.0.2 table 10$I pref 10$I", take: "ip rule del pref 10$I; ip route flush table 10$I", shows: `^ip -d -4 route show table all: .*172\.20\.$I\.0/24`, row: "routes in every table"},
	{name: "metrics of all kinds", give: "ip route add 172.25.$I.0/24 via 10.$I.0.1 dev $N mtu lock 1400 advmss 1300 rtt 100ms rttvar 50ms window 5000 cwnd lock 8 initcwnd 20 initrwnd 30 ssthresh lock 9 reordering 5 hoplimit 7 rto_min 33ms quickack 1 features ecn realms 5/6 tos 0x10 metric 99 proto 77 scope global; ip -6 route add fd03:$I::/64 via fd00:$I::1 dev $N mtu 1400 advmss 1300 hoplimit 7 pref high expires 5000",
		take: "ip route del 172.25.$I.0/24 tos 0x10 metric 99; ip -6 route del fd03:$I::/64 dev $N", shows: `^ip -d -[46] route show table all: .*(172\.25\.$I\.0/24|fd03:$I::/64)`, row: "routes in every table"},
	{name: "congestion control of a route", give: "ip route add 172.27.$I.0/24 dev $N congctl reno fastopen_no_cookie 1", take: "ip route del 172.27.$I.0/24 dev $N", shows: `172\.27\.$I\.0/24`, row: "routes in every table"},
	{name: "special types", give: "ip route add local 172.28.$I.1/32 dev $N; ip route add broadcast 172.28.$I.2/32 dev $N; ip route add 172.28.$I.4/32 dev $N scope host; ip route add multicast 239.$I.0.0/16 dev $N; ip -6 route add local fd04:$I::1/128 dev $N; ip -6 route add multicast ff05:$I::/64 dev $N table 78; ip -6 route add anycast fd05:$I::/128 dev $N",
		take: "ip route del local 172.28.$I.1/32 dev $N; ip route del broadcast 172.28.$I.2/32 dev $N; ip route del 172.28.$I.4/32 dev $N; ip route del multicast 239.$I.0.0/16 dev $N; ip -6 route del local fd04:$I::1/128 dev $N; ip -6 route del multicast ff05:$I::/64 dev $N table 78; ip -6 route del anycast fd05:$I::/128 dev $N", shows: `172\.28\.$I\.|fd0[45]:$I:|ff05:$I:`, row: "routes in every table"},
	{name: "onlink", give: "ip route add 172.29.$I.0/24 via 192.0.3.$I dev $N onlink", take: "ip route del 172.29.$I.0/24", shows: `172\.29\.$I\.0/24`, row: "routes in every table"},
	{name: "IPv4 by a gateway of IPv6", apart: true, give: "ip route add 172.31.$I.0/24 via inet6 fe80::77 dev $N", take: "ip route del 172.31.$I.0/24", shows: `172\.31\.$I\.0/24`, row: "routes in every table"},
	{name: "IPv4 by a gateway of IPv6, of which there is none any more", apart: true, give: "ip route add 172.19.$I.0/24 via inet6 fe80::77 dev $N; echo 1 >/proc/sys/net/ipv6/conf/$N/disable_ipv6", take: "ip route del 172.19.$I.0/24; echo 0 >/proc/sys/net/ipv6/conf/$N/disable_ipv6", shows: `172\.19\.$I\.0/24`, row: "IPv4 routes by gateways of IPv6", batch: 6},
	{name: "encapsulation: MPLS", give: "modprobe mpls_iptunnel; ip route add 172.26.$I.0/24 encap mpls 10$I via 10.$I.0.1 dev $N", take: "ip route del 172.26.$I.0/24", shows: `172\.26\.$I\.0/24`, row: "routes in every table"},
	{name: "encapsulation: IP tunnels", give: "ip route add 172.30.$I.0/24 encap ip id 7$I dst 10.$I.0.9 ttl 9 dev $N", take: "ip route del 172.30.$I.0/24", shows: `172\.30\.$I\.0/24`, row: "routes in every table"},
	{name: "encapsulation: segment routing", give: "ip -6 route add fd06:$I::/64 encap seg6 mode encap segs fd00:$I::9 dev $N; ip -6 route add fd07:$I::/64 encap seg6local action End.X nh6 fd00:$I::9 dev $N", take: "ip -6 route del fd06:$I::/64; ip -6 route del fd07:$I::/64", shows: `fd0[67]:$I::/64`, row: "routes in every table"},
	{name: "encapsulation that counts", alone: true, give: "ip -6 route add fd07:$I::/64 encap seg6local action End.X nh6 fd00:$I::9 count dev $N", take: "ip -6 route del fd07:$I::/64", shows: `fd07:$I::/64`, row: "one that counts"},
	{name: "several next hops", give: "ip route add 172.21.$I.0/24 nexthop via 10.$I.0.1 dev $N nexthop via 10.$I.0.3 dev $N weight 3; ip -6 route add fd08:$I::/64 nexthop via fd00:$I::1 dev $N nexthop via fd00:$I::3 dev $N weight 3", take: "ip route del 172.21.$I.0/24; ip -6 route del fd08:$I::/64", shows: `172\.21\.$I\.0/24|fd08:$I::/64`, row: "routes over several next hops of the interface"},
	{name: "next hops of others, too", give: "ip route add 172.18.$I.0/24 nexthop via 10.$I.0.1 dev $N nexthop via 192.0.2.253 dev eth0", take: "ip route del 172.18.$I.0/24", shows: `172\.18\.$I\.0/24`, row: "routes over others' next hops, too"},
	{name: "next hop objects", on: eth, give: "ip nexthop add id 10$I via 10.$I.0.1 dev $N; ip nexthop add id 11$I group 10$I; ip nexthop add id 12$I dev $N; ip route add 172.22.$I.0/24 nhid 10$I; ip route add 172.22.1$I.0/24 nhid 11$I", take: "ip route del 172.22.$I.0/24; ip route del 172.22.1$I.0/24; ip nexthop del id 11$I; ip nexthop del id 10$I; ip nexthop del id 12$I", shows: `^ip -d nexthop show: id 1[012]$I |172\.22\.1?$I\.0/24`, row: "next hop objects and groups of them"},
	{name: "resilient group", on: eth, give: "ip nexthop add id 13$I via 10.$I.0.7 dev $N; ip nexthop add id 14$I group 13$I type resilient buckets 4 idle_timer 77 unbalanced_timer 88", take: "ip nexthop del id 14$I; ip nexthop del id 13$I", shows: `^ip -d nexthop show: id 1[34]$I `, row: "next hop objects and groups of them"},
	{name: "group of next hops that hardware counts for", on: eth, give: "ip nexthop add id 15$I via 10.$I.0.8 dev $N; ip nexthop add id 16$I group 15$I hw_stats on", take: "ip nexthop del id 16$I; ip nexthop del id 15$I", shows: `^ip -d nexthop show: id 16$I `, row: "next hop objects and groups of them"},
	{name: "another interface's route from its address", give: "ip route add 172.23.$I.0/24 via 192.0.2.254 dev eth0 src 10.$I.0.2", take: "ip route del 172.23.$I.0/24", shows: `172\.23\.$I\.0/24`, row: "others' IPv4 routes from an address of the interface"},
	{name: "connected route removed", give: "ip addr add 10.$I.12.1/24 dev $N; ip route del 10.$I.12.0/24 dev $N", take: "ip addr del 10.$I.12.1/24 dev $N", shows: `^address of $N .*10\.$I\.12\.1"`, row: "a connected route that was removed"},
	{name: "MPLS routes", alone: true, give: "modprobe mpls_router; sysctl -qw net.mpls.platform_labels=1000; ip -f mpls route add 10$I via inet 10.$I.0.1 dev $N", take: "ip -f mpls route del 10$I", shows: `^ip -f mpls route show: 10$I `, row: "net.mpls.conf"},
}

var rules = []setting{
	{name: "by interface", give: "ip rule add iif $N table 200 pref 20$I; ip -6 rule add oif $N table 200 pref 20$I", take: "ip rule del pref 20$I; ip -6 rule del pref 20$I", shows: `rule show: 20$I: `, row: "policy rules by iif, oif"},
	{name: "with all else that rules have", give: "ip rule add iif $N from 10.$I.0.0/16 to 172.16.0.0/12 tos 0x10 fwmark 7/0xff ipproto 6 sport 100-200 dport 300 uidrange 0-100 suppress_prefixlength 8 suppress_ifgroup 9 realms 3/4 table 201 pref 21$I protocol 77", take: "ip rule del pref 21$I", shows: `rule show: 21$I: `, row: "policy rules by iif, oif"},
	{name: "that jump and refuse", give: "ip rule add iif $N goto 32766 pref 22$I; ip rule add oif $N prohibit pref 23$I; ip -6 rule add iif $N blackhole pref 24$I", take: "ip rule del pref 22$I; ip rule del pref 23$I; ip -6 rule del pref 24$I", shows: `rule show: 2[234]$I: `, row: "policy rules by iif, oif"},
}

var neighbors = []setting{
	{name: "permanent", on: eth, give: "ip neigh add 10.$I.0.77 lladdr 02:00:00:00:00:77 dev $N nud permanent; ip -6 neigh add fd00:$I::77 lladdr 02:00:00:00:00:77 dev $N nud permanent", take: "ip neigh del 10.$I.0.77 dev $N; ip -6 neigh del fd00:$I::77 dev $N", shows: `(10\.$I\.0\.77|fd00:$I::77) dev $N .*PERMANENT`, row: "permanent and noarp neighbours"},
	{name: "noarp, router, protocol", on: eth, give: "ip neigh add 10.$I.0.78 lladdr 02:00:00:00:00:78 dev $N nud noarp protocol 77; ip -6 neigh add fd00:$I::78 lladdr 02:00:00:00:00:78 dev $N nud permanent router", take: "ip neigh del 10.$I.0.78 dev $N; ip -6 neigh del fd00:$I::78 dev $N", shows: `(10\.$I\.0\.78|fd00:$I::78) dev $N `, row: "permanent and noarp neighbours"},
	{name: "proxied", on: eth, give: "ip neigh add proxy 10.$I.0.88 dev $N; ip -6 neigh add proxy fd00:$I::88 dev $N", take: "ip neigh del proxy 10.$I.0.88 dev $N; ip -6 neigh del proxy fd00:$I::88 dev $N", shows: `(10\.$I\.0\.88|fd00:$I::88) dev $N .*proxy`, row: "proxied neighbours"},
	{name: "managed, learned by a daemon", on: eth, apart: true, give: "ip neigh add 10.$I.0.79 dev $N managed extern_learn", take: "ip neigh del 10.$I.0.79 dev $N", shows: `10\.$I\.0\.79 dev $N `, row: "managed and externally learned ones"},
	{name: "hardware address filter", on: eth, give: "bridge fdb add 02:00:00:00:01:0$I dev $N self", take: "bridge fdb del 02:00:00:00:01:0$I dev $N self", shows: `^bridge -d fdb show: 02:00:00:00:01:0$I dev $N`, row: "unicast hardware address filters"},
	{name: "multicast hardware address filter", on: eth, apart: true, give: "bridge fdb add 01:00:5e:00:77:0$I dev $N self", take: "bridge fdb del 01:00:5e:00:77:0$I dev $N self", shows: `^(ip maddr show: $N .*|bridge -d fdb show: )01:00:5e:00:77:0$I`, row: "multicast hardware addresses"},
}

var sysctls = []setting{
	{name: "MPLS input", on: eth, alone: true, give: "modprobe mpls_router; echo 1 >/proc/sys/net/mpls/conf/$N/input", take: "echo 0 >/proc/sys/net/mpls/conf/$N/input", shows: `^/proc/sys/net/mpls/conf/$N/input 1`, row: "net.mpls.conf"},
	{name: "secret for stable addresses", give: "echo 2001:db8::$I >/proc/sys/net/ipv6/conf/$N/stable_secret", take: ownIPv6Again, shows: `^/proc/sys/net/ipv6/conf/$N/stable_secret 2001`, row: "stable_secret and addr_gen_mode", batch: 3},
	{name: "no IPv6", give: "echo 1 >/proc/sys/net/ipv6/conf/$N/disable_ipv6", take: "echo 0 >/proc/sys/net/ipv6/conf/$N/disable_ipv6", shows: `^/proc/sys/net/ipv6/conf/$N/disable_ipv6 1`, row: "disable_ipv6", batch: 3},
	{name: "IPv6's own MTU", give: "echo 1400 >/proc/sys/net/ipv6/conf/$N/mtu", take: "ip link set $N mtu 1600; ip link set $N mtu 4092", shows: `^/proc/sys/net/ipv6/conf/$N/mtu 1400`, row: "sysctls: ipv4/conf", on: ipoib, batch: 2},
	{name: "forwarding", give: "echo 1 >/proc/sys/net/ipv4/conf/$N/forwarding; echo 1 >/proc/sys/net/ipv6/conf/$N/forwarding", take: "echo 0 >/proc/sys/net/ipv4/conf/$N/forwarding; echo 0 >/proc/sys/net/ipv6/conf/$N/forwarding", shows: `^/proc/sys/net/ipv[46]/conf/$N/forwarding 1`, row: "sysctls: ipv4/conf", batch: 3},
}

// qdiscs are one of each interface, so each takes another batch or another interface.
var qdiscs = []setting{
	{name: "fq_codel", give: "tc qdisc replace dev $N root fq_codel limit 500 target 4321 interval 54321 ce_threshold 1234", take: "tc qdisc del dev $N root", shows: `^tc: qdisc fq_codel .* dev $N root`, row: "root queueing discipline without classes"},
	{name: "codel", on: eth, give: "tc qdisc replace dev $N root codel target 7777", take: "tc qdisc del dev $N root", shows: `^tc: qdisc codel .* dev $N root`, row: "root queueing discipline without classes", batch: 1},
	{name: "fq", on: eth, give: "tc qdisc replace dev $N root handle 77: fq limit 5000 flow_limit 77 quantum 3000 maxrate 1gbit", take: "tc qdisc del dev $N root", shows: `^tc: qdisc fq 77: dev $N root`, row: "root queueing discipline without classes", batch: 2},
	{name: "cake", on: eth, give: "tc qdisc replace dev $N root cake bandwidth 10gbit diffserv4 ack-filter", take: "tc qdisc del dev $N root", shows: `^tc: qdisc cake .* dev $N root`, row: "root queueing discipline without classes", batch: 3},
	{name: "pfifo", on: ipoib, give: "tc qdisc replace dev $N root pfifo limit 77", take: "tc qdisc del dev $N root", shows: `^tc: qdisc pfifo .* dev $N root`, row: "root queueing discipline without classes", batch: 1},
	{name: "bfifo", on: ipoib, give: "tc qdisc replace dev $N root bfifo limit 100000", take: "tc qdisc del dev $N root", shows: `^tc: qdisc bfifo .* dev $N root`, row: "root queueing discipline without classes", batch: 2},
	{name: "noqueue", on: ipoib, give: "tc qdisc replace dev $N root noqueue", take: "tc qdisc del dev $N root", shows: `^tc: qdisc noqueue .* dev $N root`, row: "root queueing discipline without classes", batch: 3},
}

// dcb is data center bridging.
var dcb = []setting{
	{name: "priorities of applications", on: eth, give: "dcb app add dev $N dscp-prio 26:3 46:5 ethtype-prio 0x88b5:2 dgram-port-prio 4791:4 default-prio 1", take: "dcb app flush dev $N", shows: `^dcb app show dev $N: `, row: "DCB: priorities of applications"},
	{name: "rewriting", on: eth, give: "dcb rewr add dev $N prio-dscp 3:26", take: "dcb rewr flush dev $N", shows: `^dcb rewr show dev $N: prio-dscp`, row: "DCB: priorities of applications"},
	{name: "flow control of priorities", on: eth, give: "dcb pfc set dev $N prio-pfc 3:on delay 77", take: "dcb pfc set dev $N prio-pfc 3:off delay 0", shows: `^dcb pfc show dev $N: .*3:on`, row: "DCB: ETS, PFC"},
	{name: "traffic classes", on: eth, give: "dcb ets set dev $N prio-tc 0:0 1:0 2:0 3:3 4:0 5:5 6:6 7:0 tc-tsa 0:ets 3:ets tc-bw 0:50 3:50", take: "dcb ets set dev $N prio-tc all:0 tc-tsa all:strict tc-bw all:0", shows: `^dcb ets show dev $N: .*3:3`, row: "DCB: ETS, PFC"},
	{name: "buffers", on: eth, give: "dcb buffer set dev $N prio-buffer 3:1", take: "dcb buffer set dev $N prio-buffer 3:0", shows: `^dcb buffer show dev $N: .*3:1`, row: "DCB: ETS, PFC"},
	{name: "rates of classes", on: eth, give: "dcb maxrate set dev $N tc-maxrate 3:1gbit", take: "true", shows: `^dcb maxrate show dev $N: .*`, row: "DCB: ETS, PFC"},
	{name: "trust", on: eth, give: "dcb apptrust set dev $N order dscp", take: "true", shows: `^dcb apptrust show dev $N: .*dscp`, row: "DCB: ETS, PFC"},
	{name: "who speaks DCBX", on: eth, give: "dcb dcbx set dev $N host cee", take: "true", shows: `^dcb dcbx show dev $N: .*cee`, row: "DCB: ETS, PFC"},
}

// stacked are interfaces that stand on this one.
var stacked = []setting{
	{name: "macvlan", on: eth, give: "ip link add link $N name mv$I type macvlan mode bridge; ip link set mv$I up; ip addr add 10.$I.5.1/24 dev mv$I; ip -6 addr add fd00:$I:5::1/64 dev mv$I nodad", take: "ip link del mv$I", shows: `^(ip -d (link|addr) show: mv$I@|address of mv$I )`, row: "VLAN, macvlan, ipvlan children"},
	{name: "VLANs, one on another", on: eth, give: "ip link add link $N name vl$I type vlan id 7; ip link set vl$I up; ip addr add 10.$I.6.1/24 dev vl$I; ip route add 172.24.$I.0/24 via 10.$I.6.9; ip link add link $N name vm$I type vlan id 8; ip link set vm$I mtu 1500 up; ip addr add 10.$I.8.1/24 dev vm$I; ip link add link vm$I name vn$I type vlan id 8", take: "ip link del vn$I; ip link del vm$I; ip link del vl$I", shows: `^(ip -d (link|addr) show: v[lmn]$I@|address of v[lmn]$I )|172\.24\.$I\.0/24`, row: "VLAN, macvlan, ipvlan children"},
	{name: "VLAN's flags and maps of priorities", on: eth, give: "ip link add link $N name vo$I type vlan id 9 reorder_hdr off loose_binding on ingress-qos-map 3:4 egress-qos-map 5:6; ip link set vo$I up", take: "ip link del vo$I", shows: `^ip -d link show: vo$I@`, row: "VLAN, macvlan, ipvlan children"},
	{name: "VLAN with GVRP and MVRP", on: eth, give: "ip link add link $N name vp$I type vlan id 10 gvrp on mvrp on; ip link set vp$I up", take: "ip link del vp$I", shows: `^(ip -d link show: vp$I@|ip maddr show: $N .*01:80:c2:00:00:21|bridge -d fdb show: 01:80:c2:00:00:21 dev $N)`, row: "GVRP"},
	{name: "VLAN of provider bridges", on: eth, give: "ip link add link $N name vq$I type vlan proto 802.1ad id 11; ip link set vq$I up", take: "ip link del vq$I", shows: `^ip -d link show: vq$I@`, row: "VLAN, macvlan, ipvlan children"},
	{name: "ipvlan", on: eth, give: "ip link add link $N name iv$I type ipvlan mode l3s; ip link set iv$I up; ip addr add 10.$I.13.1/24 dev iv$I", take: "ip link del iv$I", shows: `^(ip -d (link|addr) show: iv$I@|address of iv$I )`, row: "VLAN, macvlan, ipvlan children", batch: 2},
	{name: "ipvlan whose parent got a smaller MTU", on: eth, batch: 5, apart: true, give: "ip link add link $N name iw$I type ipvlan mode l3s; ip link set iw$I up; ip link set $N mtu 4321", take: "ip link del iw$I; ip link set $N mtu 9000", shows: `^(ip -d (link|addr) show: iw$I@|/proc/sys/net/ipv6/conf/iw$I/mtu 9000$)`, row: "the IPv6 MTU of an ipvlan"},
	{name: "P_Key child", on: ipoib, give: "ip link add link $N name $N.8001 type ipoib pkey 0x8001; ip link set $N.8001 up; ip addr add 10.$I.7.1/24 dev $N.8001", take: "ip link del $N.8001", shows: `^(ip -d (link|addr) show: $N.8001@|address of $N.8001 )`, row: "P_Key children"},
}

// rdmas are of the RDMA device.
var rdmas = []setting{
	{name: "RDMA-CM's type of service", give: "f=/sys/kernel/config/rdma_cm/$D; mkdir -p $f; echo 10$I >$f/ports/1/default_roce_tos", take: "f=/sys/kernel/config/rdma_cm/$D; echo 0 >$f/ports/1/default_roce_tos; rmdir $f", shows: `^/sys/kernel/config/rdma_cm/$D/ports/1/default_roce_tos 10$I`, row: "RDMA-CM's defaults"},
	{name: "RDMA-CM's kind of GID", on: eth, give: "f=/sys/kernel/config/rdma_cm/$D; mkdir -p $f; echo 'IB/RoCE v1' >$f/ports/1/default_roce_mode", take: "f=/sys/kernel/config/rdma_cm/$D; mkdir -p $f; echo 'RoCE v2' >$f/ports/1/default_roce_mode; rmdir $f", shows: `^/sys/kernel/config/rdma_cm/$D/ports/1/default_roce_mode IB/RoCE v1`, row: "RDMA-CM's defaults", batch: 1},
	{name: "node description", give: "echo rail-$I >/sys/class/infiniband/$D/node_desc", take: "echo ibfake >/sys/class/infiniband/$D/node_desc", shows: `^/sys/class/infiniband/$D/node_desc rail-`, row: "node description"},
	{name: "lifespan of counters", give: "for f in /sys/class/infiniband/$D/hw_counters/lifespan /sys/class/infiniband/$D/ports/1/hw_counters/lifespan; do [ ! -e $f ] || echo 800 >$f; done; cat /sys/class/infiniband/$D/ports/1/hw_counters/lifespan", take: "for f in /sys/class/infiniband/$D/hw_counters/lifespan /sys/class/infiniband/$D/ports/1/hw_counters/lifespan; do [ ! -e $f ] || echo 10 >$f; done", shows: `^/sys/class/infiniband/$D/(ports/1/)?hw_counters/lifespan 800`, row: "lifespan of hardware counters"},
	{name: "moderation of completions", give: "rdma dev set $D adaptive-moderation on", take: "rdma dev set $D adaptive-moderation off", shows: `^rdma -d dev show: $D: .*adaptive-moderation on`, row: "adaptive moderation"},
	{name: "counters of queue pairs", give: "rdma statistic qp set link $D/1 auto type on", take: "rdma statistic qp set link $D/1 auto off", shows: `^rdma statistic qp mode: .*$D/1 .*auto`, row: "counters of queue pairs"},
	{name: "optional counters", give: "rdma statistic set link $D/1 optional-counters cc_rx_ce_pkts", take: "rdma statistic unset link $D/1 optional-counters", shows: `^rdma statistic mode: .*$D/1 .*optional`, row: "optional counters"},
	{name: "GUID of the node", give: "ip link set $N vf 0 node_guid 00:11:22:33:44:55:66:77", take: "true", shows: `vf 0`, row: "SR-IOV VFs"},
}

// byOthers are what other parts of the node have that names the interface, or an address of it.
var byOthers = []setting{
	{name: "filter of another interface that sends to it", alone: true, give: "tc qdisc replace dev eth0 clsact; tc filter add dev eth0 ingress pref 1$I handle 1$I protocol ip matchall action mirred egress redirect dev $N", take: "tc filter del dev eth0 ingress pref 1$I; tc filter show dev eth0 ingress | grep -q . || tc qdisc del dev eth0 clsact", shows: `^tc: .*mirred .*device $N`, row: "mirred"},
	{name: "action that stands alone", alone: true, give: "tc actions add action mirred egress redirect dev $N index 7$I", take: "tc actions del action mirred index 7$I", shows: `^tc: .*mirred .*device $N\) .*index 7$I `, row: "that stand alone"},
	{name: "filter of another interface for what comes from it", give: "tc qdisc replace dev eth0 clsact; tc filter add dev eth0 egress pref 2$I handle 1 protocol ip flower indev $N action pass", take: "tc filter del dev eth0 egress pref 2$I; tc filter show dev eth0 egress | grep -q . || tc qdisc del dev eth0 clsact", shows: `^tc: .*indev $N`, row: "by its index", batch: 1},
	{name: "nftables chain", alone: true, give: "nft add table netdev t$I; nft \"add chain netdev t$I c { type filter hook ingress device $N priority 0; }\"; nft add rule netdev t$I c counter", take: "nft delete table netdev t$I", shows: `^nft -s list ruleset: table netdev t$I`, row: "chains of nftables"},
	{name: "nftables flowtable", alone: true, give: "nft add table inet f$I; nft \"add flowtable inet f$I f { hook ingress priority 0; devices = { $N, eth0 }; }\"", take: "nft delete table inet f$I", shows: `^nft -s list ruleset: table inet f$I`, row: "flowtables of nftables", batch: 1},
	{name: "nftables rule by name", give: "nft add table inet r$I; nft \"add chain inet r$I c { type filter hook input priority 0; }\"; nft add rule inet r$I c iifname $N tcp dport 7 drop", take: "nft delete table inet r$I", shows: `^nft -s list ruleset: table inet r$I`, row: "by that alone"},
	{name: "nftables rule by index", give: "nft add table inet q$I; nft \"add chain inet q$I c { type filter hook input priority 0; }\"; nft add rule inet q$I c iif $N tcp dport 7 drop", take: "nft delete table inet q$I", shows: `^(nft -s list ruleset: table inet q$I|nft iif "$N")`, row: "by its index"},
	{name: "IPsec policy", give: "ip xfrm policy add src 10.$I.0.0/24 dst 10.77.0.0/24 dev $N dir out action block", take: "ip xfrm policy del src 10.$I.0.0/24 dst 10.77.0.0/24 dev $N dir out", shows: `^ip xfrm policy: src 10\.$I\.0\.0/24 `, row: "by its index"},
	{name: "MPTCP endpoint", give: "ip mptcp endpoint add 10.$I.0.2 dev $N id 7$I subflow", take: "ip mptcp endpoint del id 7$I", shows: `^ip mptcp endpoint show: 10\.$I\.0\.2 `, row: "by its index"},
	{name: "foo over UDP", give: "modprobe fou; ip fou add port 700$I ipproto 4 local 10.$I.0.2 dev $N", take: "ip fou del port 700$I local 10.$I.0.2 dev $N", shows: `^ip fou show: port 700$I `, row: "by its index"},
	{name: "multicast route", on: eth, batch: 4, apart: true, give: `rm -f /tmp/routed; python3 -c 'import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
s.setsockopt(0, 200, 1)
s.setsockopt(0, 202, struct.pack("HBBIII", 0, 8, 1, 0, socket.if_nametoindex(sys.argv[1]), 0))
s.setsockopt(0, 204, struct.pack("4s4sH32s2xIIIi", socket.inet_aton("10.77.0.5"), socket.inet_aton("239.7.7.1"), 0, bytes(32), 0, 0, 0, 0))
open("/tmp/routed", "w")
time.sleep(9999)' $N </dev/null >/dev/null 2>&1 & echo $! >/tmp/router; until [ -e /tmp/routed ]; do kill -0 $(cat /tmp/router); sleep 0.1; done`, take: "kill $(cat /tmp/router)", shows: `^(/proc/sys/net/ipv4/conf/$N/mc_forwarding 1|ip (mroute show table all|netconf show): |route .*239\.7\.7\.1|link .*"allmulti":1.*"ifname":"$N"|ip -d (link|addr) show: $N: .* allmulti 1 |/sys/class/net/$N/flags )`, row: "multicast routes"},
	{name: "L2TP tunnel", give: "modprobe l2tp_eth; ip l2tp add tunnel tunnel_id 7$I peer_tunnel_id 8$I encap udp local 10.$I.0.2 remote 10.$I.0.77 udp_sport 500$I udp_dport 6000", take: "ip l2tp del tunnel tunnel_id 7$I", shows: `^ip l2tp show tunnel: Tunnel 7$I`, row: "by that alone"},
}

// refusals are what is refused, before anything is moved.
var refusals = []setting{
	{name: "bridge", on: eth, alone: true, give: "ip link add br$I type bridge; ip link set $N master br$I", take: "ip link set $N nomaster; ip link del br$I", shows: `^ip -d link show: $N: .* master br$I`, row: "master: bond, bridge, VRF, team"},
	{name: "VRF", alone: true, give: "ip link add vrf$I type vrf table 90$I; ip link set $N master vrf$I", take: "ip link set $N nomaster; ip link del vrf$I", shows: `^ip -d link show: $N: .* master vrf$I`, row: "master: bond, bridge, VRF, team"},
	{name: "bond", on: eth, alone: true, give: "modprobe bonding max_bonds=0; ip link add bo$I type bond; ip link set $N down; ip link set $N master bo$I", take: "ip link set $N nomaster; ip link del bo$I", shows: `^ip -d link show: $N: .* master bo$I`, row: "master: bond, bridge, VRF, team"},
	{name: "team", on: eth, alone: true, give: "ip link add te$I type team; ip link set $N down; ip link set $N master te$I", take: "ip link set $N nomaster; ip link del te$I", shows: `^ip -d link show: $N: .* master te$I`, row: "master: bond, bridge, VRF, team"},
	{name: "XDP program", alone: true, on: eth, give: "ip link set $N xdpgeneric pinned /sys/fs/bpf/pass", take: "ip link set $N xdp off", shows: `^ip -d link show: $N: .*prog/xdp`, row: "XDP program"},
	{name: "ingress", alone: true, give: "tc qdisc add dev $N ingress", take: "tc qdisc del dev $N ingress", shows: `^tc: qdisc ingress .*dev $N`, row: "ingress and clsact"},
	{name: "clsact with filters", alone: true, give: "tc qdisc add dev $N clsact; tc filter add dev $N ingress matchall action drop; tc chain add dev $N ingress chain 7", take: "tc qdisc del dev $N clsact", shows: `^tc: filter .*matchall`, row: "ingress and clsact"},
	{name: "queues' disciplines by the kernel", on: eth, give: "tc qdisc replace dev $N root handle 77: mq", take: "tc qdisc del dev $N root", shows: `^tc: qdisc mq 77: dev $N root`, row: "`mq` with a handle", batch: 4},
	{name: "discipline of each queue", on: eth, alone: true, give: "tc qdisc replace dev $N root handle 77: mq; tc qdisc replace dev $N parent 77:1 fq_codel limit 77; tc qdisc replace dev $N parent 77:3 fq", take: "tc qdisc del dev $N root", shows: `^tc: qdisc (mq 77: dev $N root|fq_codel .* dev $N parent 77:1 )`, row: "one with classes"},
	{name: "traffic classes of queues", on: eth, alone: true, give: "tc qdisc replace dev $N root handle 78: mqprio num_tc 2 map 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 queues 2@0 2@2 hw 0", take: "tc qdisc del dev $N root", shows: `^tc: qdisc mqprio 78: dev $N root`, row: "one with classes"},
	{name: "classes: htb", alone: true, give: "tc qdisc replace dev $N root handle 1: htb default 1; tc class add dev $N parent 1: classid 1:1 htb rate 1gbit", take: "tc qdisc del dev $N root", shows: `^tc: class htb`, row: "one with classes"},
	{name: "classes: prio", alone: true, give: "tc qdisc replace dev $N root handle 1: prio", take: "tc qdisc del dev $N root", shows: `^tc: qdisc prio .*dev $N`, row: "one with classes"},
	{name: "token bucket", alone: true, give: "tc qdisc replace dev $N root tbf rate 1gbit burst 1mb latency 10ms", take: "tc qdisc del dev $N root", shows: `^tc: qdisc tbf .*dev $N`, row: "one with classes"},
	{name: "sfq", alone: true, give: "tc qdisc replace dev $N root sfq perturb 10", take: "tc qdisc del dev $N root", shows: `^tc: qdisc sfq .*dev $N`, row: "one with classes"},
	{name: "table of packet sizes", alone: true, give: "tc qdisc replace dev $N root stab overhead 4 linklayer ethernet pfifo limit 77", take: "tc qdisc del dev $N root", shows: `^tc: qdisc pfifo .*dev $N root`, row: "tables of packet sizes"},
	{name: "rate estimator", alone: true, give: "tc qdisc replace dev $N root estimator 1s 8s pfifo", take: "tc qdisc del dev $N root", shows: `^tc: qdisc pfifo .*dev $N root`, row: "measures its rate"},
	{name: "netem", alone: true, give: "tc qdisc replace dev $N root netem delay 1ms", take: "tc qdisc del dev $N root", shows: `^tc: qdisc netem .*dev $N`, row: "one with classes"},
	{name: "pie", alone: true, give: "tc qdisc replace dev $N root pie limit 77", take: "tc qdisc del dev $N root", shows: `^tc: qdisc pie .*dev $N`, row: "one with classes"},
	{name: "filters of a discipline", alone: true, give: "tc qdisc replace dev $N root handle 7: fq_codel; tc filter add dev $N parent 7: matchall action pass", take: "tc qdisc del dev $N root", shows: `^tc: filter .*matchall`, row: "traffic filters"},
	{name: "VXLAN", on: eth, alone: true, give: "ip link add vx$I type vxlan id 7 dev $N dstport 4789", take: "ip link del vx$I", shows: `^ip -d link show: vx$I: .* dev $N`, row: "other children: VXLAN, MACsec"},
	{name: "macvtap", on: eth, give: "ip link add link $N name mt$I type macvtap; ip link set mt$I up", take: "ip link del mt$I", shows: `^ip -d link show: mt$I@`, row: "VLAN, macvlan, ipvlan children"},
	{name: "IPsec's interface", on: eth, alone: true, give: "ip link add xf$I type xfrm dev $N if_id 7$I", take: "ip link del xf$I", shows: `^ip -d link show: xf$I@`, row: "other children: VXLAN, MACsec"},
	{name: "MACsec", on: eth, alone: true, give: "ip link add link $N name ms$I type macsec", take: "ip link del ms$I", shows: `^ip -d link show: ms$I@`, row: "other children: VXLAN, MACsec"},
	{name: "HSR", on: eth, alone: true, give: "modprobe hsr; ip link add other$I type veth peer name far$I; ip link add hsr$I type hsr slave1 $N slave2 other$I", take: "ip link del hsr$I; ip link del other$I", shows: `^ip -d link show: hsr$I: .* slave1 $N`, row: "HSR, PRP"},
	{name: "AMT", on: eth, alone: true, give: "modprobe amt; ip link add amt$I type amt mode gateway local 10.$I.0.2 discovery 10.$I.0.77 dev $N", take: "ip link del amt$I", shows: `^ip -d link show: amt$I: `, row: "HSR, PRP"},
	{name: "RDMA device on it", on: eth, alone: true, give: "modprobe rdma_rxe; rdma link add rxe$I type rxe netdev $N", take: "rdma link delete rxe$I; " + vm.ForgetTable, shows: `^rdma -d link show: link rxe$I/1 .* netdev $N`, row: "other RDMA devices on it"},
	{name: "bearer of TIPC", on: eth, alone: true, give: "modprobe tipc; tipc bearer enable media eth device $N", take: "tipc bearer disable media eth device $N", shows: `^tipc bearer list: (eth|ib):$N`, row: "bearers of TIPC"},
	{name: "bearer of TIPC over InfiniBand", on: ipoib, alone: true, give: "modprobe tipc; tipc node set identity rail$I; tipc bearer enable media ib device $N", take: "tipc bearer disable media ib device $N", shows: `^tipc bearer list: (eth|ib):$N`, row: "bearers of TIPC"},
	{name: "FCoE", on: eth, alone: true, give: "modprobe fcoe; echo $N >/sys/bus/fcoe/ctlr_create", take: "echo $N >/sys/bus/fcoe/ctlr_destroy", shows: `^/sys/class/net/$N/ctlr_`, row: "bearers of TIPC; FCoE"},
	{name: "GRE", on: eth, alone: true, give: "ip link add gr$I type gre remote 10.$I.0.77 local 10.$I.0.2 dev $N", take: "ip link del gr$I", shows: `^ip -d link show: gr$I@`, row: "other children: VXLAN, MACsec"},
}
