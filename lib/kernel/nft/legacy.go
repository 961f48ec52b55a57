package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// Chain is one of a firewall's.
type Chain struct {
	Name   string
	Legacy bool // iptables-legacy's
}

// DroppingAll returns what dropping does and droppingLegacy.
func DroppingAll(p Packet) (all []Chain, err error) {
	names, err := dropping(p)
	for _, name := range names {
		all = append(all, Chain{Name: name})
	}
	legacy, old := droppingLegacy(p)
	for _, name := range legacy {
		all = append(all, Chain{Name: name, Legacy: true})
	}
	return all, errors.Join(err, old)
}

// String names the chain and whose it is.
func (c Chain) String() string {
	if c.Legacy {
		return c.Name + " of iptables-legacy"
	}
	return c.Name + " of nftables"
}

// Accept returns the command that has the chain accept what a rule says, in the words of nft and of iptables.
func (c Chain) Accept(nft, iptables string) string {
	if table, name, _ := strings.Cut(c.Name, " "); c.Legacy {
		return fmt.Sprintf("iptables-legacy -t %s -I %s %s -j ACCEPT", table, name, iptables)
	}
	return fmt.Sprintf("nft insert rule %s %s accept", c.Name, nft)
}

// droppingLegacy returns the chains of iptables-legacy that drop a packet, as dropping does for those of
// nftables, which has no list of them.
func droppingLegacy(p Packet) (names []string, err error) {
	// The kernel makes a table when somebody asks for it.
	text, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	hook, chain := 1, "INPUT"
	if p.Out != "" {
		hook, chain = 2, "FORWARD"
	}
	for _, name := range strings.Fields(string(text)) {
		var t legacy
		if err == nil {
			t, err = readLegacy(name, p)
		}
		if err == nil && t.has(hook) && t.verdict(hook) == dropped {
			names = append(names, name+" "+chain)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of iptables-legacy: %w", err)
	}
	return names, nil
}

// legacy is a table of iptables-legacy, and a packet that goes through it
// (linux/netfilter_ipv4/ip_tables.h).
type legacy struct {
	info    []byte // struct ipt_getinfo
	entries []byte
	packet  Packet
}

// What a socket is asked for.
const (
	getInfo    = 64 // IPT_SO_GET_INFO
	getEntries = 65 // IPT_SO_GET_ENTRIES
)

// readLegacy reads a table. If somebody changes the table meanwhile, readLegacy fails with EAGAIN.
func readLegacy(name string, p Packet) (legacy, error) {
	const tableName, infoSize, head = 32, 84, 40
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return legacy{}, err
	}
	defer unix.Close(s)
	t := legacy{info: make([]byte, infoSize), packet: p}
	copy(t.info[:tableName-1], name)
	if err := ask(s, getInfo, t.info); err != nil {
		return legacy{}, err
	}
	size := binary.NativeEndian.Uint32(t.info[80:])
	reply := make([]byte, head+size)
	copy(reply[:tableName-1], name)
	binary.NativeEndian.PutUint32(reply[tableName:], size)
	if err := ask(s, getEntries, reply); err != nil {
		return legacy{}, err
	}
	t.entries = reply[head:]
	return t, nil
}

// ask has the kernel answer into the memory that has the question.
func ask(socket, option int, memory []byte) error {
	size := uint32(len(memory))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(socket), unix.IPPROTO_IP, uintptr(option),
		uintptr(unsafe.Pointer(&memory[0])), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// has tells whether the table has a chain at a hook.
func (t legacy) has(hook int) bool { return binary.NativeEndian.Uint32(t.info[32:])&(1<<hook) != 0 }

// verdict returns what becomes of the packet at a hook. The last rule of such a chain is its policy.
func (t legacy) verdict(hook int) verdict {
	first, policy := binary.NativeEndian.Uint32(t.info[36+4*hook:]), binary.NativeEndian.Uint32(t.info[56+4*hook:])
	if v := t.chain(first, 0); v != none {
		return v
	}
	return t.chain(policy, 0)
}

// chain goes through the rules of a chain from an offset on.
func (t legacy) chain(at uint32, depth int) verdict {
	for depth < deepest {
		e, is := t.entry(at)
		if !is {
			return none
		}
		at += uint32(e.next())
		if !e.matches(t.packet) {
			continue
		}
		v, to := e.target()
		switch {
		case to == 0 && v == none:
			continue
		case to == returns:
			return none
		case to == 0:
			return v
		case e.goes():
			return t.chain(uint32(to), depth+1)
		}
		if v := t.chain(uint32(to), depth+1); v != none {
			return v
		}
	}
	return none
}

// entry returns the rule at an offset.
func (t legacy) entry(at uint32) (e legacyRule, is bool) {
	if int64(at)+ruleSize > int64(len(t.entries)) {
		return nil, false
	}
	e = legacyRule(t.entries[at:])
	if next := e.next(); next < ruleSize+partSize || next > len(e) || e.parts() < ruleSize || e.parts() > next-partSize {
		return nil, false
	}
	return e[:e.next()], true
}

// legacyRule is a struct ipt_entry with its matches and its target.
type legacyRule []byte

const (
	ruleSize = 112 // struct ipt_entry
	partSize = 32  // struct xt_entry_match and xt_entry_target, before what is their own

	returns = -1 // in place of a chain's offset
)

func (e legacyRule) parts() int { return int(binary.NativeEndian.Uint16(e[88:])) } // where the target is
func (e legacyRule) next() int  { return int(binary.NativeEndian.Uint16(e[90:])) }
func (e legacyRule) goes() bool { return e[82]&2 != 0 } // IPT_F_GOTO

// target returns a rule's verdict, or the offset of the chain that it calls.
func (e legacyRule) target() (v verdict, to int) {
	target := e[e.parts():]
	switch name, _, _ := bytes.Cut(target[2:31], []byte{0}); string(name) {
	case "REJECT":
		return dropped, 0
	case "":
	default:
		return none, 0
	}
	if len(target) < partSize+4 {
		return none, 0
	}
	switch code := int32(binary.NativeEndian.Uint32(target[partSize:])); code {
	case -1: // -NF_DROP-1
		return dropped, 0
	case -2: // -NF_ACCEPT-1
		return accepted, 0
	case -5: // XT_RETURN
		return none, returns
	default:
		return none, max(int(code), 0)
	}
}

// matches tells whether a rule is certain to match a packet.
func (e legacyRule) matches(p Packet) bool {
	const viaIn, viaOut, tos, source, destination, fragment, protocol = 1, 2, 4, 8, 16, 32, 64
	inverted := e[83]
	is := func(flag byte, equal bool) bool { return equal != (inverted&flag != 0) }
	to, known := p.To, p.To.IsValid()
	if !known && !bytes.Equal(e[12:16], make([]byte, 4)) {
		return false
	}
	if !known {
		to = p.From // any: the mask is 0
	}
	number := binary.NativeEndian.Uint16(e[80:])
	sure := is(source, sameIn(p.From.AsSlice(), e[0:4], e[8:12])) && is(destination, sameIn(to.AsSlice(), e[4:8], e[12:16])) &&
		is(viaIn, sameIn(named(p.In), e[16:32], e[48:64])) && is(viaOut, sameIn(named(p.Out), e[32:48], e[64:80])) &&
		(number == 0 || is(protocol, number == uint16(p.Protocol))) && inverted&(tos|fragment) == 0 && e[82]&1 == 0
	for at := ruleSize; sure && at < e.parts(); {
		size := int(binary.NativeEndian.Uint16(e[at:]))
		if size < partSize || at+size > e.parts() {
			return false
		}
		sure = holdsFor(p, e[at:at+size])
		at += size
	}
	return sure
}

// holdsFor tells whether a match is certain to hold for a packet.
func holdsFor(p Packet, m []byte) bool {
	name, _, _ := bytes.Cut(m[2:31], []byte{0})
	info, err := xt.Unmarshal(string(name), xt.TableFamily(nftables.TableFamilyIPv4), uint32(m[31]), m[partSize:])
	return err == nil && judge{packet: p}.old(&expr.Match{Name: string(name), Info: info})
}

// sameIn tells whether a value is another one where a mask has bits.
func sameIn(v, as, mask []byte) bool {
	for i := range v {
		if (v[i]^as[i])&mask[i] != 0 {
			return false
		}
	}
	return true
}

// named returns an interface's name as rules have it.
func named(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}
