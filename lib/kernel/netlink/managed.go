package netlink

import "golang.org/x/sys/unix"

// Concede takes what managers make as it is, and what others make as it was. It adds to diff
// what managers make otherwise than before.
func Concede[M ~[]byte](diff []string, what string, have, want []M, protocol func(M) byte, key, name func(M) string) (agreed []M, all []string) {
	others, own := byManagers(want, protocol)
	_, given := byManagers(have, protocol)
	return With(have, others, key), append(diff, Differences(what, given, own, key, name)...)
}

// byManagers parts what managers make, and the kernel for their addresses, from
// what others make: by the protocol that each says it is of (rtnetlink(7)).
func byManagers[M ~[]byte](list []M, protocol func(M) byte) (others, own []M) {
	for _, m := range list {
		switch protocol(m) {
		case unix.RTPROT_REDIRECT, unix.RTPROT_KERNEL, unix.RTPROT_STATIC, unix.RTPROT_RA, unix.RTPROT_DHCP:
			own = append(own, m)
		default:
			others = append(others, m)
		}
	}
	return others, own
}
