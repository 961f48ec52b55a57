package slurm

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gresnet/lib/job"
)

// Device is one device of a GRES as gres.conf has it. File is empty where
// Count= is all.
type Device struct{ Type, File string }

// Devices are a node's devices of a GRES in the order of gres.conf, which is
// that of their indices.
func (c Conf) Devices(node, name string) ([]Device, error) {
	var devices []Device
	for _, l := range c {
		if l.Get("name") != name {
			continue
		}
		if hosts := l.Get("nodename"); hosts != "" {
			list, err := ParseHostlist(hosts)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", l.File, l.Number, err)
			}
			if !list.Contains(node) {
				continue
			}
		}
		if files := l.Get("file"); files != "" {
			names, err := expand(files)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", l.File, l.Number, err)
			}
			for _, n := range names {
				devices = append(devices, Device{l.Get("type"), n})
			}
			continue
		}
		count := 1
		if text := l.Get("count"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > job.MaxIndex {
				return nil, fmt.Errorf("%s:%d: %q is no count", l.File, l.Number, text)
			}
			count = n
		}
		for range count {
			devices = append(devices, Device{Type: l.Get("type")})
		}
	}
	return devices, nil
}

// expand spells out "/dir/hca[0-3]" in the order in which it is written, as
// Slurm's hostlists do.
func expand(text string) ([]string, error) {
	before, rest, bracketed := strings.Cut(text, "[")
	if !bracketed {
		return strings.Split(text, ","), nil
	}
	inside, after, closed := strings.Cut(rest, "]")
	if !closed || strings.ContainsAny(after, "[],") {
		return nil, fmt.Errorf("%q is no list of files that this program can read", text)
	}
	var names []string
	for _, part := range strings.Split(inside, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, bad := strconv.ParseUint(first, 10, 16)
		to, worse := strconv.ParseUint(last, 10, 16)
		if errors.Join(bad, worse) != nil || to < from || to > job.MaxIndex {
			return nil, fmt.Errorf("%q is no list of files that this program can read", text)
		}
		for n := from; n <= to; n++ {
			names = append(names, fmt.Sprintf("%s%0*d%s", before, len(first), n, after))
		}
	}
	return names, nil
}

// Promised is what a node's line in slurm.conf has of a GRES, and whether there
// is such a line with a count that is plain.
func (c Conf) Promised(node, name string) (count int, is bool) {
	list, defaults := "", ""
	for _, l := range c.All("nodename") {
		hosts, text := l.Keys[0].Value, l.Get("gres")
		if strings.EqualFold(hosts, "default") {
			defaults = cmp.Or(text, defaults)
			continue
		}
		if h, err := ParseHostlist(hosts); err == nil && h.Contains(node) {
			list, is = cmp.Or(text, defaults), true
		}
	}
	if !is {
		return 0, false
	}
	return countOf(list, name)
}

// countOf adds up what a list like "gpu:8,nic:hdr:2(S:0),nic" has of a GRES.
func countOf(list, name string) (count int, understood bool) {
	for rest, more := list, true; more; {
		var part string
		part, rest, more = CutOutside(rest, '(', ')')
		part, _, _ = strings.Cut(part, "(")
		fields := strings.Split(part, ":")
		if fields[0] != name {
			continue
		}
		last := fields[len(fields)-1]
		n, err := strconv.Atoi(last)
		switch {
		case err == nil:
			count += n
		case strings.TrimLeft(last, "0123456789") != last:
			return 0, false // 2K and the like
		default:
			count++
		}
	}
	return count, true
}
