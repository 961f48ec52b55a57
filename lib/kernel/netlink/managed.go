package netlink

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Concede takes what managers make as it is, and what others make as it was. It adds to diff
// what managers make otherwise than before.
func Concede[M ~[]byte](diff []string, what string, have, want []M, protocol func(M) byte, key, name func(M) string) (agreed []M, all []string) {
	// What managers make, and the kernel for their addresses, says so by its protocol (rtnetlink(7)).
	byManager := func(m M) bool {
		return slices.Contains([]byte{unix.RTPROT_REDIRECT, unix.RTPROT_KERNEL, unix.RTPROT_STATIC, unix.RTPROT_RA, unix.RTPROT_DHCP}, protocol(m))
	}
	own, others := Part(want, byManager)
	given, _ := Part(have, byManager)
	return With(have, others, key), append(diff, Differences(what, given, own, key, name)...)
}
