// Package snapshot reads all that a network interface has, restores it and compares it.
// It acts in the network namespace of the calling thread.
package snapshot

import (
	"encoding/binary"

	"gresnet/lib/kernel/nft"
	"gresnet/lib/link"
)

// Conn is a connection to the namespace that the calling thread was in when it dialed.
type Conn struct {
	*link.Conn
	hooks nft.Hooks
}

// Dial opens a connection in the calling thread's network namespace.
func Dial() (*Conn, error) {
	c, err := link.Dial()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c}, nil
}

// Close closes the connection.
func (c *Conn) Close() {
	c.Conn.Close()
	c.hooks.Close()
}

var native = binary.NativeEndian
