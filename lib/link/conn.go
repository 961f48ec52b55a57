// Package link reads, moves and restores network interfaces over rtnetlink.
// It acts in the network namespace of the calling thread.
package link

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/ethtool"
	"gresnet/lib/netlink"
	"gresnet/lib/nft"
	"gresnet/lib/sysctl"
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
	route   *netlink.Route
	known   *answers // within Once
	ethtool ethtool.Conn
	sysctls *sysctl.Conn
	hooks   nft.Hooks
}

// Dial opens a connection in the calling thread's network namespace.
func Dial() (*Conn, error) {
	r, err := netlink.OpenRoute()
	if err != nil {
		return nil, err
	}
	return &Conn{route: r, sysctls: sysctl.New(r)}, nil
}

// Close closes the connection.
func (c *Conn) Close() {
	c.route.Close()
	c.ethtool.Close()
	c.hooks.Close()
}

// answers are to what was asked already.
type answers struct {
	interfaces []Interface
	sourced    [][]byte
	hooked     []nft.Hooked
}

// Once has f ask once only for what is the whole node's, its rules say, however many
// interfaces f looks at. What others change of that meanwhile it sees as it was; but
// whatever of this package changes or awaits something asks anew.
func (c *Conn) Once(f func() error) error {
	c.remember()
	defer c.forget()
	return f()
}

func (c *Conn) remember() {
	c.route.Remember()
	c.sysctls.Forget()
	c.known = new(answers)
}

func (c *Conn) forget() {
	c.route.Forget()
	c.known = nil
}

// anew has everything asked until the function returned is called, and what was known forgotten.
func (c *Conn) anew() (end func()) {
	within := c.known != nil
	c.forget()
	return func() {
		if within {
			c.remember()
		}
	}
}

// changes returns how many requests were for a change.
func (c *Conn) changes() int { return c.route.Changes() + c.ethtool.Changes() }

// send does one request, and returns the answers of a kind.
func (c *Conn) send(kind, flags int, want uint16, body []byte) ([][]byte, error) {
	return c.route.Send(kind, flags, want, body)
}

var native = binary.NativeEndian
