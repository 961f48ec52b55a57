// Package link reads, moves and restores network interfaces over rtnetlink.
// It acts in the network namespace of the calling thread.
package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

var (
	// ErrNotFound means that no interface of the namespace is the one that was asked for.
	ErrNotFound = errors.New("no such network interface")
	// ErrNameTaken means that another interface has the name, or has it as an alternative name.
	ErrNameTaken = errors.New("another interface has that name")
	// ErrAltNameTaken is the ErrNameTaken of a name that was to be an alternative one.
	ErrAltNameTaken = fmt.Errorf("%w", ErrNameTaken)
)

// named says of a request that gives an interface a name what the kernel means.
func named(err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return ErrNameTaken
	case errors.Is(err, unix.ENODEV):
		return ErrNotFound
	}
	return err
}

// Conn is a connection to the namespace that the calling thread was in when it dialed.
type Conn struct {
	Waits   *Waits // nil: nothing bounds the waits of a run
	socket  *netlink.Socket
	known   *answers        // within Once
	changes int             // how many requests were for one
	generic *netlink.Socket // for ethtool, dialed when it is first asked
	family  uint16          // ethtool's, 0 if the kernel has none

	netfilter *netlink.Socket // dialed when it is first asked
	mpls      *bool           // whether the kernel has it, nil: nobody has looked

	interfaces int                 // how many there were when they were last counted, 0: they were not
	folders    map[string][]string // of sysctls: the keys of those that there are
	parameters parameters          // of neighbour tables, as they were when last asked for
}

// Dial opens a connection in the calling thread's network namespace.
func Dial() (*Conn, error) {
	s, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	// With strict checking the kernel filters dumps by what the request names,
	// instead of sending all that the node has.
	if err := s.Set(unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		s.Close()
		return nil, fmt.Errorf("set strict checking on rtnetlink: %w", err)
	}
	return &Conn{socket: s, folders: map[string][]string{}}, nil
}

// Close closes the connection.
func (c *Conn) Close() {
	c.socket.Close()
	if c.generic != nil {
		c.generic.Close()
	}
	if c.netfilter != nil {
		c.netfilter.Close()
	}
}

// answers are to dumps that were asked for already.
type answers struct {
	dumps      map[string][][]byte // by request
	interfaces []Interface
	sourced    [][]byte
	hooked     []hooked
}

func unanswered() *answers { return &answers{dumps: map[string][][]byte{}} }

// Once has f ask once only for what is the whole node's, its rules say, however many
// interfaces f looks at. What others change of that meanwhile it sees as it was; but
// whatever of this package changes or awaits something asks anew.
func (c *Conn) Once(f func() error) error {
	c.known, c.parameters = unanswered(), nil
	defer func() { c.known = nil }()
	return f()
}

// anew has everything asked until the function returned is called, and what was known forgotten.
func (c *Conn) anew() (end func()) {
	within := c.known != nil
	c.known = nil
	return func() {
		if within {
			c.known, c.parameters = unanswered(), nil
		}
	}
}

// send does one request, and returns the answers of a kind.
func (c *Conn) send(kind, flags int, want uint16, body []byte) ([][]byte, error) {
	if kind%4 != getKind {
		c.changes++
	}
	if c.known == nil || flags&unix.NLM_F_DUMP != unix.NLM_F_DUMP {
		return c.socket.Do(kind, flags, want, body)
	}
	key := string(native.AppendUint16(slices.Clone(body), uint16(kind)))
	if _, known := c.known.dumps[key]; !known {
		list, err := c.socket.Do(kind, flags, want, body)
		if err != nil {
			return nil, err
		}
		c.known.dumps[key] = list
	}
	return slices.Clone(c.known.dumps[key]), nil
}

// getKind is what tells requests that only read by their kinds (rtnetlink.c:rtnetlink_rcv_msg).
const getKind = unix.RTM_GETLINK % 4

var native = binary.NativeEndian

// attribute appends one attribute to a message.
func attribute(m []byte, kind uint16, value []byte) []byte { return netlink.Append(m, kind, value) }
