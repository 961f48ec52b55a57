package jobnet

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gresnet/lib/base/account"
	"gresnet/lib/network/virtual"
)

// Each job has a block of ports. What comes for them is the job's, whoever listens there on the node. So a
// block has no port that the kernel chooses for the node's programs, and none of a service. The address of
// a job's uplink says its block: no two jobs have the same one, and none changes if the node's settings do.
const (
	firstPort = 1 << 14
	jobPorts  = 1 << 11
	blocks    = (1<<16 - firstPort) / jobPorts
	last      = blocks - 1 // the block that is no job's: those without one have a few ports of it each
	fewPorts  = 1 << 6
)

func block(at int) virtual.Ports {
	first := firstPort + at*jobPorts
	return virtual.Ports{First: first, Last: first + jobPorts - 1}
}

// ReadPorts reads which ports of the calling thread's network namespace are not jobs'. services are the site's.
func (n *Host) ReadPorts(services []int) error {
	const settings = "/proc/sys/net/ipv4/"
	text, err := os.ReadFile(settings + "ip_local_port_range")
	if err != nil {
		return fmt.Errorf("read which ports the kernel chooses: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &n.Chosen.First, &n.Chosen.Last); err != nil {
		return fmt.Errorf("read which ports the kernel chooses: %q: %w", text, err)
	}
	reserved, err := os.ReadFile(settings + "ip_local_reserved_ports")
	if err != nil {
		return fmt.Errorf("read which ports the kernel does not choose: %w", err)
	}
	n.Kept = without(n.Chosen, strings.TrimSpace(string(reserved)))
	for _, port := range services {
		n.Kept = append(n.Kept, virtual.Ports{First: port, Last: port})
	}
	users, err := account.Read(os.DirFS("/etc"))
	if err != nil {
		return err
	}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		kept, err := bound("/proc/thread-self/net/"+name, users)
		if err != nil {
			return err
		}
		n.Kept = append(n.Kept, kept...)
	}
	return nil
}

// without returns the ports of a range that a list like "8080,9148-9200" has not. The kernel sorts such a list.
func without(p virtual.Ports, list string) (left []virtual.Ports) {
	for part := range strings.SplitSeq(list, ",") {
		begin, end, _ := strings.Cut(part, "-")
		from, err := strconv.Atoi(begin)
		if err != nil {
			continue
		}
		to, err := strconv.Atoi(end)
		if err != nil {
			to = from
		}
		if p.First < from {
			left = append(left, virtual.Ports{First: p.First, Last: min(from-1, p.Last)})
		}
		p.First = max(p.First, to+1)
	}
	if p.First <= p.Last {
		left = append(left, p)
	}
	return left
}

// mostSockets bounds the sockets that bound looks at, because users can have any number of them.
const mostSockets = 1 << 14

// bound returns the ports of a list of the kernel's at which a program of the system listens. A user's do not
// count: a user could keep all ports from jobs. If users have more sockets than bound looks at, it may miss
// one of the system's, and a job can get the port; the site's list of services keeps it in any case.
func bound(path string, users account.Users) (all []virtual.Ports, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without IPv6
	}
	if err != nil {
		return nil, fmt.Errorf("read which ports the node's services have: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the heading
	for n := 0; n < mostSockets && lines.Scan(); n++ {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid
		words := strings.Fields(lines.Text())
		if len(words) < 8 {
			continue
		}
		const listens = "0A"
		if strings.Contains(path, "tcp") && words[3] != listens {
			break // the kernel lists those that listen first
		}
		_, port, _ := strings.Cut(words[1], ":")
		number, err := hex.DecodeString(port)
		if err != nil || len(number) != 2 {
			continue
		}
		uid, err := strconv.ParseUint(words[7], 10, 32)
		if err == nil && !users.Owns(uint32(uid)) {
			at := int(number[0])<<8 | int(number[1])
			all = append(all, virtual.Ports{First: at, Last: at})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read which ports the node's services have: %w", err)
	}
	return all, nil
}
