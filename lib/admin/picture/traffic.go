package picture

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

var refCount = regexp.MustCompile(` refcnt \d+`)

// quantum is what the kernel computes of the MTU when it makes a discipline of its own.
var quantum = regexp.MustCompile(` (initial_)?quantum \d+b?`)

// kernels finds the kernel's own disciplines: they have no handle.
var kernels = regexp.MustCompile(` 0: dev (\S+) `)

func up(name string) bool {
	var flags uint64
	fmt.Sscanf(read("/sys/class/net/"+name+"/flags"), "0x%x", &flags)
	return flags&1 != 0
}

// qdiscs returns all that the interfaces have, but for the kernel's own of one that is down: it
// has one that it got when it was up, or none yet.
func qdiscs() ([]string, error) {
	text, err := ask("", "tc", "qdisc")
	facts := lines("tc", refCount.ReplaceAllString(text, ""))
	for i, f := range facts {
		if kernels.MatchString(f) {
			facts[i] = quantum.ReplaceAllString(f, "")
		}
	}
	return slices.DeleteFunc(facts, func(f string) bool {
		own := kernels.FindStringSubmatch(f)
		return own != nil && !up(own[1])
	}), err
}

// mirrors returns the actions that send packets through interfaces, with their numbers; what they
// count and when they were used is no setting.
func mirrors() ([]string, error) {
	text, err := ask("", "tc", "actions", "ls", "action", "mirred")
	var facts []string
	for action := range strings.SplitSeq(text, "action order ") {
		if _, action, is := strings.Cut(action, ": "); is {
			facts = append(facts, "action "+strings.Join(strings.Fields(action), " "))
		}
	}
	return facts, err
}

// labels returns the routes of MPLS, where the kernel has it.
func labels() ([]string, error) {
	if _, err := os.Stat("/proc/sys/net/mpls"); err != nil {
		return nil, nil
	}
	text, err := ask("", "ip", "-d", "-o", "-f", "mpls", "route")
	return lines("MPLS", strings.ReplaceAll(text, "\\", "")), err // iproute2 prints one route a line
}

// nftables returns its rules without what they count, where the kernel has it: the question
// would load it.
func nftables() ([]string, error) {
	if _, err := os.Stat("/sys/module/nf_tables"); err != nil {
		return nil, nil
	}
	text, err := ask("", "nft", "-s", "list", "ruleset")
	var facts []string
	for l := range strings.Lines(text) {
		facts = append(facts, "nft "+strings.TrimSpace(l))
	}
	return facts, err
}
