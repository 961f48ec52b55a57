package config

import (
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/node"
)

// mostSlots bounds the slots of an HCA.
const mostSlots = 256

// readPart reads in which parts jobs get an HCA, and how many there are.
func (h *HCA) readPart(t table) {
	h.Part, _ = t.Word("part", node.KindNames()...)
	count, counted := t.Number("count")
	h.Count = count
	switch says := t.Has("count"); {
	case says && !t.Has("part"):
		t.Fail("count", `GN313 add part = "vf" if jobs are to get its VFs`, "there is no part to count")
	case h.Part != "" && !h.Kind().Uncounted && !says:
		t.Fail("count", "GN314 say how many parts the HCA is to have", "is missing")
	case counted && count == 0:
		t.Fail("count", "GN315 leave the table out if no job is to have a part", "0 is no number of parts")
	case h.Kind().Slots() && count > mostSlots:
		t.Fail("count", "", "an HCA has %d slots at most", mostSlots)
	}
	h.readNetwork(t)
	h.PKey = readPKey(t)
	if h.PKey != 0 && !h.Kind().Has("pkey") {
		t.Fail("pkey", `GN360 add part = "pkey" and count, or leave it out`, "jobs get no interface for a partition")
	}
}

// readPKey reads a P_Key; 0 if there is none. Which member of the partition a port is, the subnet
// manager says.
func readPKey(t table) node.PKey {
	n, there := valueOf[int64](t, "pkey", "a number")
	if !there {
		return 0
	}
	k := node.PKey(n)
	if n < 0 || n > node.LastPKey || !k.IsOne() {
		t.Fail("pkey", "GN352 write it like 0x8001", "%#x is no P_Key", n)
	}
	return k.Full()
}

// checkPKeys notes HCAs for partitions, if nothing says which partitions.
func (c *Config) checkPKeys(root table) {
	if slices.ContainsFunc(c.Policies, func(p Policy) bool { return p.PKey != 0 }) {
		return
	}
	for i, t := range root.Tables("hca") {
		if h := c.HCAs[i]; h.Kind().Has("pkey") && h.PKey == 0 {
			t.Fail("pkey", "GN353 write it here like 0x8001, or into a [[policy]]", "is missing")
		}
	}
}

// readNetwork reads where the interfaces of slots get their addresses.
func (h *HCA) readNetwork(t table) {
	text, there := t.Text("network")
	if !there {
		return
	}
	network, err := netip.ParsePrefix(text)
	switch {
	case !h.Kind().Has("network"):
		t.Fail("network", `GN339 it is for part = "macvlan", part = "ipvlan" and part = "pkey"`, "jobs get no interface that gresnet makes")
	case err != nil || !network.Addr().Is4() || network != network.Masked():
		t.Fail("network", `GN340 write it like "10.64.0.0/16"`, "%q is not an IPv4 network", text)
	default:
		h.Network = network
	}
}

// Kind returns the kind of what jobs get of the HCA.
func (h HCA) Kind() node.PartKind { return node.KindNamed(h.Part) }

// Parts returns how many entries of the mapping it makes.
func (h HCA) Parts() int { return max(h.Count, 1) }

// checkIndices notes indices that there are not, or that another table has.
func (h HCA) checkIndices(t table) {
	if last := h.Index + h.Parts() - 1; last > node.MaxIndex {
		t.Fail("index", "", "the last part would be %d, which is not from 0 to %d", last, node.MaxIndex)
		return
	}
	for part := range h.Parts() {
		t.Once("index", fmt.Sprintf("%s %d", h.Gres, h.Index+part))
	}
}

// checkParent notes a match that does not tell which HCA has the parts, before they are there.
func (h HCA) checkParent(t table) {
	if h.Kind().Splits() && h.Match.Key != "pci" {
		t.Fail("match", `GN316 write it like "pci=0000:3b:00.0": VFs are made before the PF has a name`, "%s does not say which PF has the VFs", h.Match)
	}
}

// alone tells whether nobody but one part serves the HCA's GPUs.
func (h HCA) alone() bool { return h.Part == "" || h.Count == 1 }

// checkGPUs orders the GPUs of a whole HCA, or of its only part, and holds those of parts against
// their number.
func (h HCA) checkGPUs(t table) {
	if h.alone() {
		slices.Sort(h.GPUs)
	} else if len(h.GPUs) > h.Parts() {
		t.Fail("gpus", "GN317 name one GPU for each part at most", "%d are more than the parts, %d", len(h.GPUs), h.Parts())
	}
}

// GPUsOf returns the GPUs that a part serves, or that the HCA serves if it is whole.
func (h HCA) GPUsOf(part int) []int {
	switch {
	case h.alone():
		return h.GPUs
	case part < len(h.GPUs):
		return h.GPUs[part : part+1]
	}
	return nil
}

// Gives tells whether the table gives jobs an HCA of the node: by its match, or as a part.
func (h HCA) Gives(have node.HCA) bool {
	_, is := h.PartOf(have.ID)
	return is || !h.Kind().Splits() && h.Match.Matches(have)
}

// PartOf returns the number of the part that an HCA of the node is; is is false if it is none.
func (h HCA) PartOf(id node.ID) (number int, is bool) {
	number, is = h.Kind().PartOf(id, h.Match.Value)
	return number, is && number < h.Count
}

// Splits tells whether an HCA of the node is the one that the table gives in parts.
func (h HCA) Splits(id node.ID) bool {
	return h.Kind().Splits() && id.PCI == h.Match.Value && id.IsFunction()
}

// Covers tells whether an HCA of the node is for jobs alone: one that the table gives them, or the
// parent of what it gives, and all that is made of the parent.
func (h HCA) Covers(have node.HCA) bool {
	return h.Match.Matches(have) || h.Kind().Splits() && h.Match.Value == have.ID.PCI
}
