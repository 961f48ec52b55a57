package sysctl

import (
	"path"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// The kernel tells nearly all sysctls of an interface's conf folders with the interface, as lists of numbers in the
// order of linux/ip.h and linux/ipv6.h, which never changes. A hundred files less are to be read, each of which the
// kernel would make an inode for that the next move has to find and take away again: that is a tenth of the prolog of
// a job with eight HCAs. What has no name here is read from its file.

// devconf4 are the sysctls of ipv4/conf in the order of IPV4_DEVCONF_*.
var devconf4 = sync.OnceValue(func() []string {
	return inFolder("ipv4/conf/", []string{
		"forwarding", "mc_forwarding", "proxy_arp", "accept_redirects", "secure_redirects", "send_redirects",
		"shared_media", "rp_filter", "accept_source_route", "bootp_relay", "log_martians", "tag", "arp_filter",
		"medium_id", "disable_xfrm", "disable_policy", "force_igmp_version", "arp_announce", "arp_ignore",
		"promote_secondaries", "arp_accept", "arp_notify", "accept_local", "src_valid_mark", "proxy_arp_pvlan",
		"route_localnet", "igmpv2_unsolicited_report_interval", "igmpv3_unsolicited_report_interval",
		"ignore_routes_with_linkdown", "drop_unicast_in_l2_multicast", "drop_gratuitous_arp", "bc_forwarding",
		"arp_evict_nocarrier",
	})
})

// devconf6 are the sysctls of ipv6/conf in the order of DEVCONF_*. The kernel leaves out
// stable_secret (addrconf.c:ipv6_store_devconf).
var devconf6 = sync.OnceValue(func() []string {
	return inFolder("ipv6/conf/", []string{
		"forwarding", "hop_limit", "mtu", "accept_ra", "accept_redirects", "autoconf", "dad_transmits",
		"router_solicitations", "router_solicitation_interval", "router_solicitation_delay", "use_tempaddr", "temp_valid_lft", "temp_prefered_lft", "regen_max_retry",
		"max_desync_factor", "max_addresses", "force_mld_version", "accept_ra_defrtr", "accept_ra_pinfo",
		"accept_ra_rtr_pref", "router_probe_interval", "accept_ra_rt_info_max_plen", "proxy_ndp", "optimistic_dad",
		"accept_source_route", "mc_forwarding", "disable_ipv6", "accept_dad", "force_tllao", "ndisc_notify",
		"mldv1_unsolicited_report_interval", "mldv2_unsolicited_report_interval",
		"suppress_frag_ndisc", "accept_ra_from_local", "use_optimistic", "accept_ra_mtu", "", "use_oif_addrs_only",
		"accept_ra_min_hop_limit", "ignore_routes_with_linkdown", "drop_unicast_in_l2_multicast",
		"drop_unsolicited_na", "keep_addr_on_down", "router_solicitation_max_interval", "seg6_enabled", "seg6_require_hmac", "enhanced_dad",
		"addr_gen_mode", "disable_policy", "accept_ra_rt_info_min_plen", "ndisc_tclass", "rpl_seg_enabled", "ra_defrtr_metric",
		"ioam6_enabled", "ioam6_id", "ioam6_id_wide", "ndisc_evict_nocarrier", "accept_untracked_na", "accept_ra_min_lft",
	})
})

// inFolder makes files the keys of sysctls; what has no name stays without.
func inFolder(folder string, files []string) []string {
	for i, file := range files {
		if file != "" {
			files[i] = folder + file
		}
	}
	return files
}

// Of linux/if_link.h.
const (
	iflaInetConf  = 1
	iflaInet6Conf = 2
)

// form returns a number that the kernel reported in the form of its file; false if only the file can tell: it has
// seconds, and the kernel reported milliseconds that are no multiple of that (proc_dointvec_jiffies).
func form(file string, value uint32) (string, bool) {
	switch file {
	case "ra_defrtr_metric", "ioam6_id_wide":
		return strconv.FormatUint(uint64(value), 10), true
	case "router_solicitation_interval", "router_solicitation_delay", "router_solicitation_max_interval",
		"router_probe_interval":
		return strconv.FormatUint(uint64(value)/1000, 10), value%1000 == 0
	}
	return strconv.Itoa(int(int32(value))), true
}

// reported returns the sysctls that come with an interface as the kernel describes it, in the form of their files. The
// kernel reports some for which it has no file.
func reported(list netlink.Attributes) (Values, error) {
	t := make(Values, 160) // about as many as there are in all
	families, err := list.Nested(unix.IFLA_AF_SPEC)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		family, conf uint16
		keys         []string
	}{
		{unix.AF_INET, iflaInetConf, devconf4()},
		{unix.AF_INET6, iflaInet6Conf, devconf6()},
	} {
		inner, err := families.Nested(f.family)
		if err != nil {
			return nil, err
		}
		values := inner.Value(f.conf)
		for i, key := range f.keys {
			if key == "" || len(values) < 4*(i+1) {
				continue
			}
			if value, is := form(path.Base(key), native.Uint32(values[4*i:])); is {
				t[key] = value
			}
		}
	}
	return t, nil
}
