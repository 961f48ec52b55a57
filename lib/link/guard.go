package link

import (
	"slices"

	"golang.org/x/sys/unix"
)

// IsUplink tells whether the node's default route goes through the interface:
// without it the node may be out of everybody's reach.
func (s Settings) IsUplink() bool {
	return slices.ContainsFunc(s.Routes, Message.isDefault) ||
		slices.ContainsFunc(s.HomeRoutes, func(m Message) bool { return m.isDefault() && m.usesInterface() })
}

func (m Message) isDefault() bool {
	// rtmsg: destination length, table, type
	return m[1] == 0 && m[4] == unix.RT_TABLE_MAIN && m[7] == unix.RTN_UNICAST
}

// usesInterface tells a route that goes through the interface, too, from one of
// another that only has its address as the source.
func (m Message) usesInterface() bool {
	uses := m.object() != 0
	m.eachIndex(func(i []byte) { uses = uses || native.Uint32(i) == 0 })
	return uses
}
