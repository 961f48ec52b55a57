package link

import (
	"fmt"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// The kernel tells the sysctls of conf folders with the interface, too: as lists of
// numbers, in the order of linux/ip.h and linux/ipv6.h, which never changes. A hundred
// files less are to be read. Those without a name here are read from their files: they
// have another form there, or the kernel leaves them out (devinet.c:inet_fill_link_af,
// addrconf.c:ipv6_store_devconf).

// devconf4 are the sysctls of ipv4/conf in the order of IPV4_DEVCONF_*.
func devconf4() []string {
	return []string{
		"forwarding", "mc_forwarding", "proxy_arp", "accept_redirects", "secure_redirects", "send_redirects",
		"shared_media", "rp_filter", "accept_source_route", "bootp_relay", "log_martians", "tag", "arp_filter",
		"medium_id", "disable_xfrm", "disable_policy", "force_igmp_version", "arp_announce", "arp_ignore",
		"promote_secondaries", "arp_accept", "arp_notify", "accept_local", "src_valid_mark", "proxy_arp_pvlan",
		"route_localnet", "igmpv2_unsolicited_report_interval", "igmpv3_unsolicited_report_interval",
		"ignore_routes_with_linkdown", "drop_unicast_in_l2_multicast", "drop_gratuitous_arp", "bc_forwarding",
		"arp_evict_nocarrier",
	}
}

// devconf6 are the sysctls of ipv6/conf in the order of DEVCONF_*. Times that the
// kernel keeps in ticks and stable_secret, ioam6_id_wide and what came later have no name.
func devconf6() []string {
	return []string{
		"forwarding", "hop_limit", "mtu", "accept_ra", "accept_redirects", "autoconf", "dad_transmits",
		"router_solicitations", "", "", "use_tempaddr", "temp_valid_lft", "temp_prefered_lft", "regen_max_retry",
		"max_desync_factor", "max_addresses", "force_mld_version", "accept_ra_defrtr", "accept_ra_pinfo",
		"accept_ra_rtr_pref", "", "accept_ra_rt_info_max_plen", "proxy_ndp", "optimistic_dad",
		"accept_source_route", "mc_forwarding", "disable_ipv6", "accept_dad", "force_tllao", "ndisc_notify", "", "",
		"suppress_frag_ndisc", "accept_ra_from_local", "use_optimistic", "accept_ra_mtu", "", "use_oif_addrs_only",
		"accept_ra_min_hop_limit", "ignore_routes_with_linkdown", "drop_unicast_in_l2_multicast",
		"drop_unsolicited_na", "keep_addr_on_down", "", "seg6_enabled", "seg6_require_hmac", "enhanced_dad",
		"addr_gen_mode", "disable_policy", "accept_ra_rt_info_min_plen", "ndisc_tclass", "rpl_seg_enabled", "",
		"ioam6_enabled", "ioam6_id", "", "ndisc_evict_nocarrier", "accept_untracked_na", "accept_ra_min_lft",
	}
}

// Of linux/if_link.h.
const (
	iflaInetConf  = 1
	iflaInet6Conf = 2
)

// told are the sysctls that come with an interface as the kernel describes it, in
// the form of their files. Where a kernel has no such file it is told all the same.
func told(m []byte) (Sysctls, error) {
	if len(m) < unix.SizeofIfInfomsg {
		return nil, fmt.Errorf("parse a network interface: %d bytes", len(m))
	}
	list, err := attributes(m[unix.SizeofIfInfomsg:])
	if err != nil {
		return nil, err
	}
	spec, _ := find(list, unix.IFLA_AF_SPEC)
	families, err := attributes(spec)
	if err != nil {
		return nil, err
	}
	sysctls := Sysctls{}
	for _, f := range []struct {
		family, conf uint16
		folder       string
		names        []string
	}{
		{unix.AF_INET, iflaInetConf, "ipv4/conf", devconf4()},
		{unix.AF_INET6, iflaInet6Conf, "ipv6/conf", devconf6()},
	} {
		nested, _ := find(families, f.family)
		inner, err := attributes(nested)
		if err != nil {
			return nil, err
		}
		values, _ := find(inner, f.conf)
		for i, name := range f.names {
			if name == "" || len(values) < 4*(i+1) {
				continue
			}
			sysctls[path.Join(f.folder, name)] = strconv.Itoa(int(int32(native.Uint32(values[4*i:]))))
		}
	}
	return sysctls, nil
}
