// Package link lists, moves and renames network interfaces over rtnetlink.
// It acts in the network namespace of the calling thread.
package link

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/ethtool"
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
	Budget  *poll.Budget // nil: nothing bounds the waits of a run
	Route   *netlink.Route
	Ethtool ethtool.Conn

	known map[string]any // within Once: answers to what was asked already
}

// Dial opens a connection in the calling thread's network namespace.
func Dial() (*Conn, error) {
	r, err := netlink.OpenRoute()
	if err != nil {
		return nil, err
	}
	return &Conn{Route: r}, nil
}

// Close closes the connection.
func (c *Conn) Close() {
	c.Route.Close()
	c.Ethtool.Close()
}

// Remembered returns what ask does. Within Once it asks once only for what has a name.
func Remembered[T any](c *Conn, name string, ask func() (T, error)) (T, error) {
	if known, is := c.known[name]; is {
		return known.(T), nil
	}
	answer, err := ask()
	if err == nil && c.known != nil {
		c.known[name] = answer
	}
	return answer, err
}

// Remembers tells whether this is within Once.
func (c *Conn) Remembers() bool { return c.known != nil }

// Once has f ask once only for what is the whole node's, its rules say, however many
// interfaces f looks at. What others change of that meanwhile it sees as it was; but
// whatever of this package changes or awaits something asks again.
func (c *Conn) Once(f func() error) error {
	c.remember()
	defer c.About()
	defer c.forget()
	return f()
}

// About says which interfaces are looked at within Once: what the kernel lists of an interface is then asked
// for all of them at once.
func (c *Conn) About(indices ...int) { c.Route.About(indices) }

func (c *Conn) remember() {
	c.Route.Remember()
	c.known = map[string]any{}
}

func (c *Conn) forget() {
	c.Route.Forget()
	c.known = nil
}

// AskAgain has everything asked until the function returned is called, and what was known forgotten.
func (c *Conn) AskAgain() (end func()) {
	within := c.known != nil
	c.forget()
	return func() {
		if within {
			c.remember()
		}
	}
}

// LookAgain forgets, within Once, what was known: who waited wants to know what has become of it.
func (c *Conn) LookAgain() {
	if c.known != nil {
		c.remember()
	}
}

// Changes returns how many requests were for a change.
func (c *Conn) Changes() int { return c.Route.Changes() + c.Ethtool.Changes() }

// send does one request, and returns the answers of a kind.
func (c *Conn) send(kind, flags int, want uint16, body []byte) ([][]byte, error) {
	return c.Route.Send(kind, flags, want, body)
}

var native = binary.NativeEndian
