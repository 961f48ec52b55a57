package slurm

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/indices"
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
			if err != nil || n < 0 || n > indices.Max {
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

// FilesIn are the files in a folder that a gres.conf names, of whichever node and GRES. It leaves
// out lines that it does not understand: Slurm says what is wrong with them.
func (c Conf) FilesIn(dir string) []string {
	var names []string
	for _, l := range c {
		files, err := expand(l.Get("file"))
		if err != nil {
			continue
		}
		for _, file := range files {
			if path.Dir(path.Clean(file)) == dir && !slices.Contains(names, path.Base(file)) {
				names = append(names, path.Base(file))
			}
		}
	}
	return names
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
	ranges, err := indices.ParseRanges(inside)
	for _, r := range ranges {
		if r.High > indices.Max {
			err = fmt.Errorf("%d is beyond %d", r.High, indices.Max)
			break
		}
		for n := r.Low; n <= r.High; n++ {
			names = append(names, fmt.Sprintf("%s%0*d%s", before, r.Width, n, after))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no list of files that this program can read: %w", text, err)
	}
	return names, nil
}

// Promised is what a node's line in slurm.conf has of a GRES, and whether there
// is such a line with a count that is plain.
func (c Conf) Promised(node, name string) (count int, is bool) {
	list, is := c.promised(node)
	if !is {
		return 0, false
	}
	return countOf(list, name)
}

// Types are those that a node's line in slurm.conf has of a GRES, in their order. Slurm numbers
// devices in the order of their types here, and only those of one type in the order of gres.conf
// (src/common/gres.c:_merge_gres). A type is empty for those without one.
func (c Conf) Types(node, name string) (types []string) {
	list, _ := c.promised(node)
	for _, fields := range fieldsOf(list, name) {
		kind := ""
		if len(fields) > 1 && strings.TrimLeft(fields[1], "0123456789") == fields[1] && fields[1] != "no_consume" {
			kind = fields[1]
		}
		if !slices.Contains(types, kind) {
			types = append(types, kind)
		}
	}
	return types
}

// promised is Gres= of a node's line in slurm.conf, and whether there is such a line.
func (c Conf) promised(node string) (list string, is bool) {
	defaults := ""
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
	return list, is
}

// fieldsOf returns what a list like "gpu:8,nic:hdr:2(S:0),nic" has of a GRES, each part in its fields.
func fieldsOf(list, name string) (all [][]string) {
	for rest, more := list, true; more; {
		var part string
		part, rest, more = CutOutside(rest, '(', ')')
		part, _, _ = strings.Cut(part, "(")
		if fields := strings.Split(part, ":"); fields[0] == name {
			all = append(all, fields)
		}
	}
	return all
}

// countOf adds up what such a list has of a GRES.
func countOf(list, name string) (count int, understood bool) {
	for _, fields := range fieldsOf(list, name) {
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
