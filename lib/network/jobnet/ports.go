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

	"gresnet/lib/kernel/ports"
	"gresnet/lib/slurm"
)

// ReadPorts reads which ports of the calling thread's network namespace jobs do not have: what comes for a job's block is
// the job's, whoever listens there on the node. services are the site's, and conf is slurm.conf.
func (n *Host) ReadPorts(services []int, conf slurm.Conf) (err error) {
	if n.Ephemeral, err = ports.Ephemeral(); err != nil {
		return err
	}
	n.Kept = slurms(conf)
	for _, port := range services {
		n.Kept = append(n.Kept, ports.Block{First: port, Last: port})
	}
	people, err := readUsers(os.DirFS("/etc"))
	if err != nil {
		return err
	}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		kept, err := bound("/proc/thread-self/net/"+name, people)
		if err != nil {
			return err
		}
		n.Kept = append(n.Kept, kept...)
	}
	return nil
}

// slurms returns the ports that slurm.conf names: where each srun of the node listens, those that it reserves for steps,
// and its daemons'. A job of the node's network may have a program there, although none listens now.
func slurms(c slurm.Conf) (all []ports.Block) {
	texts := []string{c.Last("srunportrange"), c.Last("slurmctldport"), c.Last("slurmdport")}
	for _, p := range strings.Split(c.Last("mpiparams"), ",") {
		if key, value, is := strings.Cut(p, "="); is && strings.EqualFold(strings.TrimSpace(key), "ports") {
			texts = append(texts, value)
		}
	}
	for _, text := range texts {
		if b, is := block(text); is {
			all = append(all, b)
		}
	}
	return all
}

// block reads a range of ports, or one.
func block(text string) (b ports.Block, is bool) {
	first, last, _ := strings.Cut(text, "-")
	var failed, none error
	b.First, failed = strconv.Atoi(strings.TrimSpace(first))
	if b.Last = b.First; last != "" {
		b.Last, none = strconv.Atoi(strings.TrimSpace(last))
	}
	return b, failed == nil && none == nil && b.First > 0
}

// mostSockets bounds the sockets that bound looks at, because users can have any number of them.
const mostSockets = 1 << 14

// bound returns the ports of a list of the kernel's at which a program of the system listens. A user's do not
// count: a user could keep all ports from jobs. If users have more sockets than bound looks at, it may miss
// one of the system's, and a job can get the port; the site's list of services keeps it in any case.
func bound(path string, people users) (all []ports.Block, err error) {
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
		if err == nil && !people.own(uint32(uid)) {
			at := int(number[0])<<8 | int(number[1])
			all = append(all, ports.Block{First: at, Last: at})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read which ports the node's services have: %w", err)
	}
	return all, nil
}
