// Package picture tells all of a node that gresnet is held to restore, by identity: the tests in the VM
// compare pictures from before and after, and so does gresnet try on a node of a site.
//
// It asks the tools that administrators ask, and shares no code with what it judges.
// What a move deals again is left out: the numbers of device nodes; of an IPoIB
// interface, which is made again, the index, the queue pair number in its address and
// the carrier (there is no subnet manager to give it one for good); the order of one
// destination's routes through different interfaces.
package picture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gresnet/lib/base/poll"
)

// Take waits until udev has done what it was told, and takes the picture: a fact a line. An error says what
// the picture lacks, such as what a program tells that the node does not have.
func Take() (string, error) {
	_, unsettled := ask("", "udevadm", "settle")
	text, err := take(interfaces, drivers, bridging, rdma, virtualFunctions, rules, qdiscs, mirrors, labels, nftables, sysctls, queues, nodes, gids, leases)
	return text, errors.Join(unsettled, err)
}

// take returns the facts of all looks that succeed.
func take(looks ...func() ([]string, error)) (string, error) {
	var all []string
	var lacks error
	for _, look := range looks {
		facts, err := look()
		all, lacks = append(all, facts...), errors.Join(lacks, err)
	}
	return strings.Join(all, "\n") + "\n", lacks
}

// ask runs a program with an input and returns its output.
func ask(input string, program ...string) (string, error) {
	var complaints bytes.Buffer
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(program, " "), err, complaints.String())
	}
	return string(out), nil
}

// object is what iproute2 prints of one thing.
type object = map[string]any

// arrays reads one array of objects after the other.
func arrays(text string, into ...*[]object) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for _, array := range into {
		if err := decoder.Decode(array); err != nil {
			return fmt.Errorf("%w in %s", err, text)
		}
	}
	return nil
}

// line returns a fact as one line, keys in their order.
func line(fact any) string {
	text, err := json.Marshal(fact)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
}

// without takes a word out of a list of them, as flags are.
func without(list any, word string) []any {
	words, _ := list.([]any)
	return slices.DeleteFunc(words, func(w any) bool { return w == word })
}

// tested tells that an address is still tested for duplicates, and so not all that it
// will be: its interface is up, else the kernel does not test it.
func tested(addresses []object) bool {
	for _, of := range addresses {
		flags, _ := of["flags"].([]any)
		infos, _ := of["addr_info"].([]any)
		for _, info := range infos {
			if info.(object)["tentative"] == true && slices.Contains(flags, any("UP")) {
				return true
			}
		}
	}
	return false
}

func interfaces() ([]string, error) {
	var links, addresses, routes []object
	_, err := new(poll.Budget).Until(poll.Addresses, func() (bool, error) {
		text, err := ask("link\naddr\nroute show table all\n", "ip", "-d", "-j", "-batch", "-")
		if err != nil {
			return false, err
		}
		links, addresses, routes = nil, nil, nil
		err = arrays(text, &links, &addresses, &routes)
		return !tested(addresses), err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(linkFacts(links), addressFacts(addresses), routeFacts(routes, addresses)), nil
}

func linkFacts(links []object) (facts []string) {
	for _, link := range links {
		info, _ := link["linkinfo"].(object)
		for _, of := range []string{"info_data", "info_slave_data"} {
			data, _ := info[of].(object)
			maps.DeleteFunc(data, func(key string, _ any) bool { return strings.HasSuffix(key, "_timer") }) // a bridge's run
		}
		if info["info_kind"] == "ipoib" {
			for _, key := range []string{"ifindex", "address", "operstate"} {
				delete(link, key)
			}
			link["flags"] = without(link["flags"], "NO-CARRIER")
		}
		delete(link, "qdisc")
		facts = append(facts, "link "+line(link))
	}
	slices.Sort(facts)
	return facts
}

// addressFacts leaves an interface's addresses in their order, which tells the primary one.
func addressFacts(addresses []object) (facts []string) {
	for _, of := range addresses {
		infos, _ := of["addr_info"].([]any)
		for _, info := range infos {
			for _, key := range []string{"valid_life_time", "preferred_life_time"} {
				if info.(object)[key] != json.Number("4294967295") {
					info.(object)[key] = "finite"
				}
			}
			facts = append(facts, fmt.Sprintf("address of %v %s", of["ifname"], line(info)))
		}
	}
	slices.SortStableFunc(facts, func(a, b string) int { return strings.Compare(owner(a), owner(b)) })
	return facts
}

func routeFacts(routes, addresses []object) (facts []string) {
	for _, route := range routes {
		if leftOver(route, addresses) {
			continue
		}
		if dev, _ := route["dev"].(string); strings.HasPrefix(dev, "ib") {
			route["flags"] = without(route["flags"], "linkdown")
		}
		if route["expires"] != nil {
			route["expires"] = "finite"
		}
		facts = append(facts, "route "+line(route))
	}
	slices.Sort(facts)
	return facts
}

// leftOver tells the route of all routers of a network where the interface is no router, or has no address of the network:
// docs/restore.md says that it is left.
func leftOver(route object, addresses []object) bool {
	if route["type"] != "anycast" || route["protocol"] != "kernel" {
		return false
	}
	if read(fmt.Sprintf("/proc/sys/net/ipv6/conf/%v/forwarding", route["dev"])) == "0" {
		return true
	}
	for _, of := range addresses {
		infos, _ := of["addr_info"].([]any)
		for _, info := range infos {
			text := fmt.Sprintf("%v/%v", info.(object)["local"], info.(object)["prefixlen"])
			if net, err := netip.ParsePrefix(text); err == nil && of["ifname"] == route["dev"] && net.Masked().Addr().String() == route["dst"] {
				return false
			}
		}
	}
	return true
}

// owner returns the interface of an address.
func owner(fact string) string { return strings.Fields(fact)[2] }

// drivers returns what ethtool sets of every interface that has it. A fact names a section, if
// there is one, since what can be at most and what is have the same names.
func drivers() (facts []string, err error) {
	for _, kind := range []struct{ option, says string }{
		{"-k", "Features for "}, {"-g", "Ring parameters for "}, {"-l", "Channel parameters for "},
		{"-c", "Coalesce parameters for "}, {"--show-priv-flags", "Private flags for "},
	} {
		text, err := ask("", "ethtool", kind.option, "*")
		if err != nil {
			return nil, err
		}
		var name, section string
		for l := range strings.Lines(text) {
			l = strings.TrimSpace(l)
			if of, is := strings.CutPrefix(l, kind.says); is {
				name, section = of, ""
			} else if strings.HasSuffix(l, "s:") {
				section = l + " "
			} else if l != "" {
				facts = append(facts, "driver of "+name+" "+section+l)
			}
		}
	}
	slices.Sort(facts) // an interface that is made again has another index
	return facts, nil
}

// dcb is iproute2's own: the guests have a script before it, which does twice what fails that sets something.
const dcb = "/usr/sbin/dcb"

// bridging returns what dcb tells of every interface that has data center bridging.
func bridging() (facts []string, err error) {
	for _, path := range glob("/sys/class/net/*/device") {
		name := filepath.Base(filepath.Dir(path))
		for _, kind := range []string{"app", "ets", "pfc", "dcbx"} {
			text, err := ask("", dcb, kind, "show", "dev", name)
			if err != nil && strings.Contains(err.Error(), "Operation not supported") {
				break // its driver has none of it
			}
			if err != nil {
				return nil, err
			}
			facts = append(facts, lines("DCB of "+name+" "+kind, text)...)
		}
	}
	return facts, nil
}

func rdma() ([]string, error) {
	var devices, ports []object
	for kind, into := range map[string]*[]object{"dev": &devices, "link": &ports} {
		text, err := ask("", "rdma", "-j", kind)
		if err != nil {
			return nil, err
		}
		if err := arrays(text, into); err != nil {
			return nil, err
		}
	}
	var facts []string
	for _, device := range devices {
		delete(device, "ifindex")
		facts = append(facts, "rdma device "+line(device))
	}
	for _, port := range ports {
		delete(port, "ifindex")
		delete(port, "netdev_index")
		facts = append(facts, "rdma port "+line(port))
	}
	// Nothing but a folder that an administrator has made tells what RDMA-CM has.
	for _, path := range glob("/sys/kernel/config/rdma_cm/*/ports/*/default_*") {
		facts = append(facts, path+" "+read(path))
	}
	return facts, nil
}

// virtualFunctions returns which driver has which VF, and what its node GUID is. What a PF has on
// record of them is among the facts of its interface.
func virtualFunctions() (facts []string, err error) {
	for _, path := range glob("/sys/bus/pci/devices/*/virtfn*") {
		driver, err := filepath.EvalSymlinks(path + "/driver")
		if err != nil {
			driver = "none"
		}
		fact := path + " has the driver " + filepath.Base(driver)
		for _, guid := range glob(path + "/infiniband/*/node_guid") {
			fact += " and the node GUID " + read(guid)
		}
		facts = append(facts, fact)
	}
	return facts, nil
}

// lines returns the lines of a text in order, each after what it is.
func lines(what, text string) (facts []string) {
	for l := range strings.Lines(text) {
		facts = append(facts, what+" "+strings.TrimSpace(l))
	}
	slices.Sort(facts)
	return facts
}

func rules() ([]string, error) {
	four, err := ask("rule\nnexthop\nneigh show nud permanent\nneigh show proxy\n", "ip", "-d", "-batch", "-")
	if err != nil {
		return nil, err
	}
	six, err := ask("rule\nneigh show nud permanent\nneigh show proxy\n", "ip", "-6", "-batch", "-")
	if err != nil {
		return nil, err
	}
	return append(lines("IPv4", unbalanced.ReplaceAllString(four, "")), lines("IPv6", six)...), nil
}

// unbalanced is how long a resilient group of next hops is it.
var unbalanced = regexp.MustCompile(` unbalanced_time [\d.]+`)
