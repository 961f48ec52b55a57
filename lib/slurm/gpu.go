package slurm

import (
	"slices"
	"strings"
)

// AutoDetect returns how slurmd finds a node's GPUs, as gres.conf says it: nvml, nvidia and the like; off,
// or empty. What a line of the node says counts before what holds for all nodes
// (src/interfaces/gres.c:_handle_autodetect_flags).
func (c Conf) AutoDetect(node string) string {
	text := c.Last("autodetect")
	for _, l := range c.All("nodename") {
		list, err := ParseHostlist(l.Keys[0].Value)
		if own := l.Get("autodetect"); own != "" && err == nil && list.Contains(node) {
			text = own
			break
		}
	}
	text = strings.ToLower(text)
	for _, word := range []string{"full", "nvml", "rsmi", "oneapi", "nrt", "nvidia"} {
		if strings.Contains(text, word) {
			return word
		}
	}
	return text
}

// Merge returns a node's devices of a GRES in the order in which Slurm counts them: by the types in the
// node's line in slurm.conf, no more of each than that line has, and those of one type in the order of
// gres.conf. Those that gres.conf lacks have no file (src/interfaces/gres.c:_merge_gres2).
func Merge(gres, conf Conf, node, name string) ([]Device, error) {
	left, err := gres.Devices(node, name)
	if err != nil {
		return nil, err
	}
	list, is := conf.promised(node)
	if !is {
		return left, nil // a dynamic node, which says itself what it has
	}
	var merged []Device
	for _, p := range promises(list, name) {
		if !p.plain || p.count < 0 || p.count > MaxNodes {
			continue // no node has so many of what has files
		}
		left = slices.DeleteFunc(left, func(d Device) bool {
			if p.count == 0 || p.kind != "" && !strings.EqualFold(d.Type, p.kind) {
				return false
			}
			d.Type = p.kind
			merged = append(merged, d)
			p.count--
			return true
		})
		for ; p.count > 0; p.count-- {
			merged = append(merged, Device{Type: p.kind})
		}
	}
	return merged, nil
}

// promise is how many devices of a type the node's line in slurm.conf has.
type promise struct {
	kind  string
	count int
	plain bool // not 2K and the like
}

// promises returns those of a list like "gpu:a100:4,gpu:h100:2", each type once.
func promises(list, name string) (all []promise) {
	for _, a := range askedOf(list, name) {
		if len(a.types) == 0 {
			a.types = []string{""}
		}
		for _, kind := range a.types {
			if i := slices.IndexFunc(all, func(o promise) bool { return o.kind == kind }); i >= 0 {
				all[i].count += a.count
				all[i].plain = all[i].plain && a.plain
				continue
			}
			all = append(all, promise{kind: kind, count: a.count, plain: a.plain})
		}
	}
	return all
}
