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
	if err := s.Set(unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		s.Close()
		return nil, fmt.Errorf("set strict checking on rtnetlink: %w", err)
	}
	return &Route{socket: s}, nil
}

// Close closes the connection.
func (r *Route) Close() { r.socket.Close() }

// Asked returns how many requests the connection has made: a test counts them.
func (r *Route) Asked() int { return r.socket.Asked() }

// Changes returns how many requests were for a change.
func (r *Route) Changes() int { return r.changes }

// Remember forgets all dumps, and has Send ask for each only once from now on.
func (r *Route) Remember() { r.dumps = map[string][][]byte{} }

// Forget forgets all dumps, and has Send ask for each again.
func (r *Route) Forget() { r.dumps = nil }

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

// SendAll is Socket.DoAll.
func (r *Route) SendAll(kind, flags int, bodies [][]byte) (refused int, err error) {
	r.changes += len(bodies)
	return r.socket.DoAll(kind, flags, bodies)
}

// Each is Socket.Each, and remembers nothing.
func (r *Route) Each(kind, flags int, want uint16, body []byte, again func(), each func([]byte) error) error {
	return r.socket.Each(kind, flags, want, body, again, each)
}

// getKind is what tells requests that only read by their kinds (rtnetlink.c:rtnetlink_rcv_msg).
const getKind = unix.RTM_GETLINK % 4
