package netlink

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Route is a connection over rtnetlink.
type Route struct {
	socket  *Socket
	dumps   map[string][][]byte // that were asked for already, by request; nil: none is remembered
	tables  map[string]*listed  // that were read for several interfaces, by request
	about   []int               // the interfaces that these are read for
	changes int                 // how many requests were for one
}

// OpenRoute opens a connection in the calling thread's network namespace.
func OpenRoute() (*Route, error) {
	s, err := Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	// With strict checking the kernel filters dumps by what the request names,
	// instead of sending all that the node has.
	if err := s.set(unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		s.Close()
		return nil, fmt.Errorf("set strict checking on rtnetlink: %w", err)
	}
	return &Route{socket: s}, nil
}

// Close closes the connection.
func (r *Route) Close() { r.socket.Close() }

// Asked returns how many requests the connection has made: a test counts them.
func (r *Route) Asked() int { return r.socket.asked() }

// Changes returns how many requests were for a change.
func (r *Route) Changes() int { return r.changes }

// Remember forgets all dumps, and has Send ask for each only once from now on.
func (r *Route) Remember() { r.dumps, r.tables = map[string][][]byte{}, map[string]*listed{} }

// Forget forgets all dumps, and has Send ask for each again.
func (r *Route) Forget() { r.dumps, r.tables = nil, nil }

// About says which interfaces are looked at one after the other while dumps are remembered: of these, tables
// are read at once.
func (r *Route) About(indices []int) { r.about = indices }

// Table is one of the kernel's lists that has entries of interfaces.
type Table struct {
	Kind    int
	Want    uint16
	All     []byte                                   // asks for the whole list
	Of      func(index int) []byte                   // asks for the entries of one interface
	Indices func(entry []byte, each func(index int)) // the interfaces that an entry is of
	Keep    func(entry []byte) bool                  // entries to be kept whatever they are of; nil: none
}

// Unclear is given for an index by an entry that does not say which interfaces it is of. A table with such a
// one is read for each interface by itself.
const Unclear = -1

// listed is what was kept of a table.
type listed struct {
	of      map[int][][]byte // by interface
	kept    [][]byte
	unclear bool
}

// Entries returns the entries of a table that are of an interface. It asks for them; or while dumps are
// remembered for several interfaces, once for those of all of them.
func (r *Route) Entries(t Table, index int) ([][]byte, error) {
	if !r.readsAll() || !slices.Contains(r.about, index) {
		return r.Send(t.Kind, unix.NLM_F_DUMP, t.Want, t.Of(index))
	}
	l, err := r.list(t)
	if err != nil {
		return nil, err
	}
	if l.unclear {
		return r.Send(t.Kind, unix.NLM_F_DUMP, t.Want, t.Of(index))
	}
	return slices.Clone(l.of[index]), nil
}

// Kept returns the entries that a table is to keep, if the table is read for several interfaces.
func (r *Route) Kept(t Table) (kept [][]byte, read bool, err error) {
	if !r.readsAll() {
		return nil, false, nil
	}
	l, err := r.list(t)
	if err != nil {
		return nil, false, err
	}
	return l.kept, true, nil
}

func (r *Route) readsAll() bool { return r.dumps != nil && len(r.about) > 1 }

// list reads a table, unless it is known. It may have very many entries, so only those of use are copied.
func (r *Route) list(t Table) (*listed, error) {
	key := string(native.AppendUint16(slices.Clone(t.All), uint16(t.Kind)))
	if l := r.tables[key]; l != nil {
		return l, nil
	}
	l := &listed{}
	again := func() { *l = listed{of: map[int][][]byte{}} }
	again()
	// What the functions share is made once, not for each entry.
	var entry, copied []byte
	var of []int // a route may lead over an interface twice
	take := func() []byte {
		if copied == nil {
			copied = slices.Clone(entry)
		}
		return copied
	}
	note := func(index int) {
		l.unclear = l.unclear || index == Unclear
		if slices.Contains(r.about, index) && !slices.Contains(of, index) {
			of = append(of, index)
			l.of[index] = append(l.of[index], take())
		}
	}
	err := r.socket.Each(t.Kind, unix.NLM_F_DUMP, t.Want, t.All, again, func(next []byte) error {
		entry, copied, of = next, nil, of[:0]
		t.Indices(entry, note)
		if t.Keep != nil && t.Keep(entry) {
			l.kept = append(l.kept, take())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.tables[key] = l
	return l, nil
}

// Send does one request, and returns the answers of a kind.
func (r *Route) Send(kind, flags int, want uint16, body []byte) ([][]byte, error) {
	if kind%4 != getKind {
		r.changes++
	}
	if r.dumps == nil || flags&unix.NLM_F_DUMP != unix.NLM_F_DUMP {
		return r.socket.Do(kind, flags, want, body)
	}
	key := string(native.AppendUint16(slices.Clone(body), uint16(kind)))
	if _, known := r.dumps[key]; !known {
		list, err := r.socket.Do(kind, flags, want, body)
		if err != nil {
			return nil, err
		}
		r.dumps[key] = list
	}
	return slices.Clone(r.dumps[key]), nil
}

// SendAll is Socket.doAll.
func (r *Route) SendAll(kind, flags int, bodies [][]byte) (refused int, err error) {
	r.changes += len(bodies)
	return r.socket.doAll(kind, flags, bodies)
}

// Each is Socket.Each, and remembers nothing.
func (r *Route) Each(kind, flags int, want uint16, body []byte, again func(), each func([]byte) error) error {
	return r.socket.Each(kind, flags, want, body, again, each)
}

// getKind is what tells requests that only read by their kinds (rtnetlink.c:rtnetlink_rcv_msg).
const getKind = unix.RTM_GETLINK % 4
