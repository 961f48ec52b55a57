package netlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// GenericHead is the size of struct genlmsghdr: a command, a version and 16 unused bits.
const GenericHead = 4

// OpenGeneric opens a socket for a family of generic netlink, and returns the number under which the
// kernel takes its requests, 0 if it takes none. The question loads the family's module.
func OpenGeneric(name string) (s *Socket, family uint16, err error) {
	if s, err = Open(unix.NETLINK_GENERIC); err != nil {
		return nil, 0, fmt.Errorf("open generic netlink: %w", err)
	}
	m := AppendText([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}, unix.CTRL_ATTR_FAMILY_NAME, name)
	answers, err := s.Do(unix.GENL_ID_CTRL, 0, unix.GENL_ID_CTRL, m)
	if err == unix.ENOENT {
		return s, 0, nil
	}
	var list Attributes
	if err == nil {
		list, err = Generic(answers)
	}
	if err != nil {
		s.Close()
		return nil, 0, fmt.Errorf("look for %s in generic netlink: %w", name, err)
	}
	return s, uint16(list.Number(unix.CTRL_ATTR_FAMILY_ID)), nil
}

// Generic returns the attributes of the one answer that there is to a request of generic netlink.
func Generic(answers [][]byte) (Attributes, error) {
	if len(answers) != 1 || len(answers[0]) < GenericHead {
		return nil, errors.New("the kernel does not answer")
	}
	return Parse(answers[0][GenericHead:])
}
