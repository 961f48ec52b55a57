package link

import "golang.org/x/sys/unix"

// IsUplink tells whether the node's default route goes through the interface:
// without it the node may be out of everybody's reach.
func (s Settings) IsUplink() bool {
	for _, m := range s.Routes {
		// rtmsg: destination length, table, type
		if m[1] == 0 && m[4] == unix.RT_TABLE_MAIN && m[7] == unix.RTN_UNICAST {
			return true
		}
	}
	return false
}
