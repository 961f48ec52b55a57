// Package whole takes pictures of a node for the test that asks whether pictures have all: besides what
// lib/admin/picture tells, what every interface of the kernel says that can name a device.
package whole

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gresnet/lib/admin/picture"
)

// question is what a program is asked of the node, or once of each interface, whose name is
// then in the place of IF. The kernel may have nothing of it.
type question struct {
	of    string   // "node", "interface", or those that are "hardware", or "Ethernet" and hardware
	ask   []string // command lines; what is behind each " <" is a line of input
	cut   []cut
	apart bool // each line that belongs to an entry is a fact of its own
}

// cut takes out of each line what changes by itself, or that a move changes by nature.
type cut struct {
	what *regexp.Regexp
	by   string
}

func cutting(what, by string) cut { return cut{regexp.MustCompile(what), by} }

var (
	// An IPoIB interface that is made again has another index and another queue pair, whose
	// number is in its address; an RDMA device that comes back has another index.
	index = cutting(`^\d+:\s*`, "")
	pair  = cutting(`\b(?:[0-9a-f]{2}:){4}((?:[0-9a-f]{2}:){15}[0-9a-f]{2})\b`, "QP:$1")
	// Lifetimes run; that there is one is a setting.
	life = cutting(`(valid_lft|preferred_lft|expires) \d+sec`, "$1 finite")
	// An interface without a subnet manager has no carrier, and loses and gets it again and
	// again while it joins its broadcast group.
	joining = cutting(`NO-CARRIER,|,LOWER_UP| linkdown| state (UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)`, "")
	// tc tells of disciplines.
	discipline = cutting(` qdisc \S+`, "")
	// IPv6 listens for solicitations and to all nodes as an interface comes up and gets addresses:
	// one that was told not to (by arp off, or by going down) after that still does.
	listening = cutting(`^(link 33:33:(ff:..:..:..|00:00:00:01)|link QP:ff:12:60:1b:ff:ff(:00){5}:01:ff:..:..:..|inet6 ff02::1:ff\S+).*`, "")
	// How many use it: the asker is one, and a job that ran moments ago may be another.
	users = cutting(` (refcnt|ref|users) \d+`, "")
	// Ages, and what was measured of a connection.
	age = cutting(` (age|unbalanced_time|rtt|rttvar|cwnd|ssthresh|reordering|used|firstused) [\d.]+(sec|us|ms)?`, "")
	// The packet numbers of MACsec count packets.
	packets = cutting(` PN \d+`, "")
	// Firmware, temperatures and the state of the link are not set.
	link = cutting(`.*(Link detected|Link partner|Speed|Duplex):.*`, "")
)

// questions are all that can name a device, but for counters.
var questions = []question{
	{"node", []string{
		"ip -d link show", "ip -d addr show", "ip -d -4 route show table all", "ip -d -6 route show table all",
		"ip -f mpls route show", "ip -d nexthop show",
		"ip netconf show", "ip -6 netconf show", "ip -f mpls netconf show", "ip token show", "ip addrlabel show",
		"ip xfrm state", "ip xfrm policy", "ip l2tp show tunnel", "ip l2tp show session", "ip macsec show",
		"ip mroute show table all", "ip -6 mroute show table all", "ip tcp_metrics show", "ip mptcp endpoint show", "ip fou show", "tipc bearer list",
	}, []cut{joining, discipline, index, pair, life, age, packets, users}, false},
	{"node", []string{"ip rule show", "ip -6 rule show"}, nil, false}, // what looks like an index is a priority
	{"node", []string{"ip maddr show"}, []cut{index, pair, users, listening}, true},
	{"node", []string{"bridge -d link show", "bridge -d mdb show", "bridge vlan show", "bridge vlan global show", "bridge vni show"}, []cut{joining, index, pair}, false},
	{"node", []string{"nft -s list ruleset", "devlink dev show", "devlink dev param show", "devlink port show", "devlink port function rate show", "devlink sb show", "devlink trap policer show", "devlink health show"}, nil, false},
	{"node", []string{"rdma -d dev show", "rdma -d link show", "rdma system show", "rdma statistic mode", "rdma statistic qp mode"}, []cut{cutting(` netdev_index \d+`, ""), index}, false},
	{"node", []string{"tc -d -force -batch - <actions list action gact <actions list action mirred <actions list action police <actions list action skbedit <actions list action pedit <actions list action vlan" +
		" <actions list action tunnel_key <actions list action csum <actions list action nat <actions list action ct <actions list action bpf <actions list action mpls <actions list action sample" +
		" <actions list action simple <actions list action connmark <actions list action ctinfo <actions list action gate <actions list action skbmod <actions list action ife"}, []cut{users, age}, false},
	{"interface", []string{"tc -d -force -batch - <class show dev IF <filter show dev IF <filter show dev IF ingress <filter show dev IF egress" +
		" <chain show dev IF <chain show dev IF ingress <chain show dev IF egress"}, []cut{users, age}, false},
	{"hardware", []string{
		"ethtool -a IF", "ethtool -c IF", "ethtool -g IF", "ethtool -i IF", "ethtool -k IF", "ethtool -l IF", "ethtool -n IF", "ethtool -x IF",
		"ethtool -P IF", "ethtool -T IF", "ethtool -w IF", "ethtool --per-queue IF --show-coalesce", "ethtool --show-priv-flags IF", "ethtool --show-eee IF", "ethtool --show-fec IF", "ethtool --show-module IF",
		"ethtool --get-tunable IF rx-copybreak", "ethtool --get-phy-tunable IF downshift", "ethtool --get-phy-tunable IF fast-link-down", "ethtool --get-phy-tunable IF energy-detect-power-down", "ethtool --show-tunnels IF",
	}, []cut{link, pair}, false},
	{"Ethernet", []string{"ethtool IF"}, []cut{link}, false}, // IPoIB has nothing of it that can be set, and tells it with a carrier alone
	{"Ethernet", []string{"dcb app show dev IF", "dcb rewr show dev IF", "dcb apptrust show dev IF", "dcb ets show dev IF", "dcb pfc show dev IF", "dcb buffer show dev IF", "dcb maxrate show dev IF", "dcb dcbx show dev IF"}, nil, false},
}

// Picture returns a picture: a fact a line. It asks some hundred programs, so it is for those that look once.
func Picture() (string, error) {
	text, err := picture.Take()
	for _, look := range []func() ([]string, error){answers, disciplines, neighbors, filters, sysctls, attributes} {
		facts, lacks := look()
		text, err = text+strings.Join(append(facts, ""), "\n"), errors.Join(err, lacks)
	}
	return text, err
}

// read returns the text of a file, empty where it has none to give.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

func glob(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		panic(err) // the patterns are ours
	}
	return paths
}

// names returns the interfaces, or the RDMA devices, in the order of their names.
func names(class string) (all []string) {
	for _, path := range glob("/sys/class/" + class + "/*") {
		if info, err := os.Stat(path); err == nil && info.IsDir() { // bonding_masters is a file
			all = append(all, filepath.Base(path))
		}
	}
	return all
}

// answers returns what the programs say.
func answers() (facts []string, err error) {
	type asked struct {
		line  string
		of    question
		facts []string
		err   error
	}
	var all []*asked
	for _, q := range questions {
		for _, name := range q.names() {
			for _, line := range q.ask {
				all = append(all, &asked{line: strings.ReplaceAll(line, "IF", name), of: q})
			}
		}
	}
	var workers sync.WaitGroup
	next := make(chan *asked)
	for range runtime.NumCPU() {
		workers.Go(func() {
			for a := range next {
				var text string
				text, a.err = answer(a.line)
				what, _, _ := strings.Cut(a.line, " -d -force -batch - <") // tc's own lines say what they answer
				a.facts = a.of.paragraphs(what, text)
			}
		})
	}
	for _, a := range all {
		next <- a
	}
	close(next)
	workers.Wait()
	for _, a := range all {
		facts, err = append(facts, a.facts...), errors.Join(err, a.err)
	}
	return facts, err
}

// names returns what the question is asked of.
func (q question) names() []string {
	switch q.of {
	case "interface":
		return slices.DeleteFunc(names("net"), func(name string) bool { return name == "lo" })
	case "hardware", "Ethernet":
		return slices.DeleteFunc(names("net"), func(name string) bool {
			folder := "/sys/class/net/" + name
			return len(glob(folder+"/device")) == 0 || q.of == "Ethernet" && read(folder+"/type") != "1"
		})
	}
	return []string{""}
}

// answer returns what a program prints. What the kernel does not have is its answer, too; a program
// that is missing is none. What one that succeeds complains of may be about namespaces that somebody
// else makes and removes.
func answer(line string) (string, error) {
	lines := strings.Split(line, " <")
	words := strings.Fields(lines[0])
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines[1:], "\n"))
	text, err := cmd.Output()
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	if exit != nil {
		text = append(text, exit.Stderr...)
	}
	return string(text), nil
}

// paragraphs returns the entries of a text, each with the lines that belong to it, which are
// indented. Their order says nothing that Take does not say.
func (q question) paragraphs(what, text string) (facts []string) {
	var entries [][]string
	for l := range strings.Lines(text) {
		follows := len(entries) > 0 && (l[0] == ' ' || l[0] == '\t')
		l = strings.Join(strings.Fields(l), " ")
		for _, c := range q.cut {
			l = c.what.ReplaceAllString(l, c.by)
		}
		switch {
		case l == "":
		case follows:
			entries[len(entries)-1] = append(entries[len(entries)-1], l)
		default:
			entries = append(entries, []string{l})
		}
	}
	for _, e := range entries {
		if q.apart {
			for _, l := range e[1:] {
				facts = append(facts, what+": "+e[0]+" | "+l)
			}
			continue
		}
		facts = append(facts, what+": "+strings.Join(e, " | "))
	}
	slices.Sort(facts)
	return facts
}

// disciplines returns those of all interfaces. The kernel gives one that comes up its own, which has
// no handle; one that is down has that still, or none yet.
func disciplines() ([]string, error) {
	text, err := answer("tc -d qdisc show")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(question{cut: []cut{users, chosen}}.paragraphs("tc", text), func(f string) bool {
		own := kernels.FindStringSubmatch(f)
		return own != nil && !up(own[1])
	}), nil
}

// What the kernel gives its own follows from what the interface was then, as its MTU.
var chosen = cutting(`( 0: dev \S+ (?:root|parent \S+)).*`, "$1 ")

var kernels = regexp.MustCompile(` 0: dev (\S+) `)

func up(name string) bool {
	var flags uint64
	fmt.Sscanf(read("/sys/class/net/"+name+"/flags"), "0x%x", &flags)
	return flags&1 != 0
}

// neighbors returns those that somebody has set: the kernel learns the others, and makes those of
// multicast addresses when it sends to one.
func neighbors() (facts []string, err error) {
	for _, line := range []string{"ip -4 -d neigh show nud all", "ip -6 -d neigh show nud all", "ip -4 neigh show proxy", "ip -6 neigh show proxy"} {
		text, err := answer(line)
		if err != nil {
			return nil, err
		}
		set := slices.DeleteFunc(question{cut: []cut{pair}}.paragraphs(line, text), func(f string) bool {
			learned := !strings.Contains(f, " PERMANENT") && !strings.Contains(f, " NOARP") && !strings.Contains(f, "managed") && !strings.Contains(f, "extern_learn") && !strings.Contains(f, "proxy")
			return learned || strings.Contains(f, ": ff") || strings.Contains(f, ": 224.") || strings.Contains(f, " 255.255.255.255 ")
		})
		facts = append(facts, set...)
	}
	return facts, nil
}

// filters returns the hardware addresses that interfaces take packets for, and bridges' entries,
// without those that a bridge learned, and those of IPv6's multicast groups.
func filters() ([]string, error) {
	const line = "bridge -d fdb show"
	text, err := answer(line)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(question{cut: []cut{pair}}.paragraphs(line, text), func(f string) bool {
		return strings.Contains(f, ": 33:33:") || !strings.Contains(f, "permanent") && !strings.Contains(f, "static") && !strings.Contains(f, "extern_learn")
	}), nil
}

// sysctls returns all files of each folder of /proc/sys/net that has an interface's name.
func sysctls() (facts []string, err error) {
	interfaces := names("net")
	err = filepath.WalkDir("/proc/sys/net", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() || !slices.Contains(interfaces, filepath.Base(filepath.Dir(path))) {
			return err
		}
		switch entry.Name() {
		case "retrans_time", "base_reachable_time": // in older units; the same as the ones in milliseconds
		default:
			facts = append(facts, path+" "+read(path))
		}
		return nil
	})
	return facts, err
}

// attributes returns what interfaces and RDMA devices have in sysfs: all that an interface says of
// itself, and whatever can be written below.
func attributes() (facts []string, err error) {
	for _, root := range []string{"net", "infiniband"} {
		for _, name := range names(root) {
			top, err := filepath.EvalSymlinks("/sys/class/" + root + "/" + name)
			if err != nil {
				return nil, err
			}
			err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return nil // gone
				}
				writable := info.Mode()&0o222 != 0
				if (writable || root == "net" && filepath.Dir(path) == top) && !dealt(name, entry.Name()) {
					facts = append(facts, fmt.Sprintf("/sys/class/%s/%s%s %s", root, name, strings.TrimPrefix(path, top), cutQueuePair(read(path))))
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return facts, nil
}

func cutQueuePair(text string) string { return pair.what.ReplaceAllString(text, pair.by) }

// dealt tells the attributes that change by themselves or by a move.
func dealt(name, attribute string) bool {
	ipoib := strings.HasPrefix(name, "ib")
	switch attribute {
	case "ifindex", "iflink": // IPoIB's are made again
		return true
	case "carrier_changes", "carrier_up_count", "carrier_down_count", "hold_time": // they count
		return true
	case "limit": // of a queue's bytes: the kernel measures it
		return true
	case "uevent": // asks for an event, and says the index
		return true
	case "carrier", "operstate": // an IPoIB interface without a subnet manager is forever joining
		return ipoib
	case "dormant", "testing", "speed", "duplex": // of the link, as that is just now
		return ipoib
	}
	return false
}
