package slurm

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/node"
)

// Device is one device of a GRES as gres.conf has it. File is empty where
// Count= is all; More has the others of MultipleFiles=.
type Device struct {
	Type, File string
	More       []string
}

// Devices returns a node's devices of a GRES in the order of their indices: first those of the lines that
// begin with Name=, then those of NodeName= (Slurm src/interfaces/gres.c:_parse_gres_conf_locked).
// Slurm takes the GRES' name in any case.
func (c Conf) Devices(node, name string) ([]Device, error) {
	var records []record
	var devices []Device
	for _, l := range append(c.All("name"), c.All("nodename")...) {
		if !strings.EqualFold(l.gres(), name) {
			continue
		}
		if err := l.knows(gresKeys); err != nil {
			return nil, err
		}
		r, is, err := l.record(node)
		if err == nil && is {
			records, devices = append(records, r), append(devices, r.devices...)
			err = fit(records)
		}
		if err != nil {
			return nil, l.fault(err)
		}
	}
	return devices, nil
}

// record is a GRES on one line.
type record struct {
	kind    string
	files   bool
	devices []Device
}

// fit is an error if the last of a GRES' lines does not go with those before it: slurmd refuses the file
// (src/interfaces/gres.c:_foreach_gres_conf, src/plugins/gres/common/gres_common.c). Types in two cases are
// one to slurmd and two to slurmctld.
func fit(all []record) error {
	last := all[len(all)-1]
	for i, d := range last.devices {
		if last.files && len(d.More) == 0 && slices.ContainsFunc(last.devices[:i], func(b Device) bool { return b.File == d.File && len(b.More) == 0 }) {
			return fmt.Errorf("it has %s twice", d.File) // slurmd takes it or not, depending on the other lines
		}
	}
	for _, before := range all[:len(all)-1] {
		switch {
		case before.files != last.files:
			return errors.New("it has files, and another line of the GRES none, or the other way round")
		case (before.kind == "") != (last.kind == ""):
			return errors.New("it has a type, and another line of the GRES none, or the other way round")
		case before.kind != last.kind && strings.EqualFold(before.kind, last.kind):
			return fmt.Errorf("it has type %s, and another line %s", last.kind, before.kind)
		case last.kind == "" && !last.files:
			return errors.New("another line of the GRES has neither a file nor a type, as this one")
		}
		for _, d := range before.devices {
			// of MultipleFiles slurmd asks for no such thing: parts of a GPU (MIG) have its file, too
			if last.files && len(d.More) == 0 && slices.ContainsFunc(last.devices, func(l Device) bool { return l.File == d.File && len(l.More) == 0 }) {
				return fmt.Errorf("another line of the GRES has %s, too", d.File)
			}
		}
	}
	return nil
}

// gres returns the GRES that a line is about: the name that it begins with, or the last one.
func (l Line) gres() string {
	if l.Keys[0].Key == "name" {
		return l.Keys[0].Value
	}
	return l.Get("name")
}

// record returns what a line has, if it is about the host.
func (l Line) record(host string) (r record, is bool, err error) {
	if l.Keys[0].Key == "nodename" {
		list, err := ParseHostlist(l.Keys[0].Value)
		if err != nil || !list.Contains(host) {
			return r, false, err
		}
	}
	files, multiple, err := l.files()
	if err != nil {
		return r, false, err
	}
	r = record{kind: l.Get("type"), files: len(files) > 0}
	count := max(len(files), 1)
	if multiple {
		count = 1
	}
	if text := l.Get("count"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > node.MaxIndex {
			return r, false, fmt.Errorf("%q is no count", text)
		}
		if len(files) > 0 && n != count {
			return r, false, fmt.Errorf("key Count says %d, the files are %d", n, count)
		}
		count = n
	}
	for i := range count {
		d := Device{Type: r.kind}
		switch {
		case multiple:
			d.File, d.More = files[0], files[1:]
		case len(files) > 0:
			d.File = files[i]
		}
		r.devices = append(r.devices, d)
	}
	return r, true, nil
}

// files returns those that a line of gres.conf names. If multiple, they are one device's.
func (l Line) files() (names []string, multiple bool, err error) {
	list, all := cmp.Or(l.Get("file"), l.Get("files")), l.Get("multiplefiles")
	if list != "" && all != "" {
		return nil, false, errors.New("it has both File and MultipleFiles")
	}
	hosts, err := ParseHostlist(cmp.Or(list, all))
	if err == nil {
		names, err = hosts.Names(node.MaxIndex + 1)
	}
	if err == nil && all != "" && len(names) < 2 {
		err = errors.New("MultipleFiles has one file")
	}
	return names, all != "", err
}

// FilesIn returns the files in a folder that a gres.conf names, of whichever node and GRES. It leaves
// out lines that it does not understand: Slurm says what is wrong with them.
func (c Conf) FilesIn(dir string) []string {
	var names []string
	for _, l := range c {
		files, _, err := l.files()
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

// Promised returns what a node's line in slurm.conf has of a GRES, and whether there
// is such a line with a count that is plain.
func (c Conf) Promised(node, name string) (count int, is bool) {
	list, is := c.promised(node)
	for _, p := range promises(list, name) {
		if !p.plain {
			return 0, false
		}
		count += p.count
	}
	return count, is
}

// Types returns those that a node's line in slurm.conf has of a GRES, in their order. Slurm numbers
// devices in the order of their types here, and only those of one type in the order of gres.conf
// (src/common/gres.c:_merge_gres). A type is empty for those without one.
func (c Conf) Types(node, name string) (types []string) {
	list, _ := c.promised(node)
	for _, p := range promises(list, name) {
		types = append(types, p.kind)
	}
	return types
}

// Lists tells whether slurm.conf has a line for a node. A dynamic node has none, and says itself what it has
// (slurmd -Z --conf).
func (c Conf) Lists(node string) bool {
	_, is := c.promised(node)
	return is
}

// Consumes tells whether Slurm counts a node's GRES for jobs.
func (c Conf) Consumes(node, name string) bool {
	list, _ := c.promised(node)
	return !slices.ContainsFunc(askedOf(list, name), func(a asked) bool { return a.noConsume })
}

// promised is Gres= of a node's line in slurm.conf, and whether there is such a line.
func (c Conf) promised(node string) (list string, is bool) {
	defaults := ""
	for _, l := range c.All("nodename") {
		text := defaults
		if p := l.Pair("gres"); p.Key != "" {
			text = p.Value
		}
		if l.isDefault() {
			defaults = text
			continue
		}
		if h, err := ParseHostlist(l.Keys[0].Value); err == nil && h.Contains(node) {
			list, is = text, true
		}
	}
	return list, is
}

// asked is a part of a list like "gpu:8,nic:400:2(S:0)": the types of a GRES, or none, and how many of each.
type asked struct {
	types     []string
	count     int
	plain     bool // not 2K and the like
	noConsume bool
}

// askedOf returns the parts of a list that are about a GRES, as Slurm reads them (src/interfaces/gres.c:_get_gres_cnt). Slurm
// takes the name here in this case alone, and the name without more for one of them and no others. Only what follows the
// last colon is a count, and only if it begins with a digit: nic:400:1 is one NIC of type 400, and nic:400 is 400 NICs.
func askedOf(list, name string) (all []asked) {
	for _, part := range Parts(list) {
		if part == name {
			return []asked{{count: 1, plain: true}}
		}
		rest, is := strings.CutPrefix(part, name+":")
		if !is {
			continue
		}
		if i := strings.LastIndexByte(rest, '('); i >= 0 {
			rest = rest[:i]
		}
		a := asked{count: 1, plain: true}
		last := rest[strings.LastIndexByte(rest, ':')+1:]
		if n := digits(last); n > 0 {
			count, err := strconv.Atoi(last[:n])
			if a.count, a.plain = count, err == nil && n == len(last); err != nil || !isSuffix(last[n:]) {
				return all // Slurm reads no further
			}
			rest = strings.TrimSuffix(rest, last)
		}
		for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return r == ':' }) {
			if strings.EqualFold(word, "no_consume") {
				a.noConsume = true
			} else {
				a.types = append(a.types, word)
			}
		}
		all = append(all, a)
	}
	return all
}

// isSuffix tells whether Slurm knows a count's suffix (src/common/slurm_protocol_defs.c:suffix_mult).
func isSuffix(text string) bool {
	text = strings.ToLower(text)
	if text == "" {
		return true
	}
	unit, rest := text[:1], text[1:]
	return strings.Contains("kmgtp", unit) && slices.Contains([]string{"", "b", "ib"}, rest)
}
