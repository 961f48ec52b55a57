package nat

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// message is one of a transaction, to the tables of IPv4.
type message struct {
	kind  uint16
	flags uint16
	body  []byte
}

const nftables = unix.NFNL_SUBSYS_NFTABLES << 8

// append appends the message with its two heads.
func (m message) append(all []byte, sequence uint32) []byte {
	return head(all, nftables|m.kind, m.flags|unix.NLM_F_ACK, sequence, unix.AF_INET, 0, m.body)
}

// head is struct nlmsghdr and struct nfgenmsg (linux/netfilter/nfnetlink.h).
func head(all []byte, kind, flags uint16, sequence uint32, family byte, resource uint16, body []byte) []byte {
	native := binary.NativeEndian
	all = native.AppendUint32(all, uint32(unix.SizeofNlMsghdr+4+len(body)))
	all = native.AppendUint16(all, kind)
	all = native.AppendUint16(all, flags|unix.NLM_F_REQUEST)
	all = native.AppendUint32(all, sequence)
	all = native.AppendUint32(all, 0)
	all = append(all, family, unix.NFNETLINK_V0)
	all = binary.BigEndian.AppendUint16(all, resource)
	return append(all, body...)
}

// answerTime bounds the wait for an answer, which the kernel has ready when it
// was sent the question.
const answerTime = 5

// transact has the kernel do all of the messages or none.
func transact(messages ...message) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open nfnetlink: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerTime}); err != nil {
		return err
	}
	batch := head(nil, unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	for i, m := range messages {
		batch = m.append(batch, uint32(i+1))
	}
	batch = head(batch, unix.NFNL_MSG_BATCH_END, 0, uint32(len(messages)+1), unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	return answers(fd, len(messages))
}

// answers waits for one answer to each message, or for the first that failed.
func answers(fd, messages int) error {
	buffer := make([]byte, 8192)
	for messages > 0 {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("read nfnetlink: %w", err)
		}
		for m := buffer[:n]; len(m) >= unix.SizeofNlMsghdr+4; messages-- {
			size := int(binary.NativeEndian.Uint32(m))
			if size < unix.SizeofNlMsghdr+4 || size > len(m) || binary.NativeEndian.Uint16(m[4:]) != unix.NLMSG_ERROR {
				return fmt.Errorf("nfnetlink answers with a message of %d bytes that is no answer", n)
			}
			if errno := int32(binary.NativeEndian.Uint32(m[unix.SizeofNlMsghdr:])); errno != 0 {
				return unix.Errno(-errno)
			}
			m = m[min((size+3)&^3, len(m)):]
		}
	}
	return nil
}
