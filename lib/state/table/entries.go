package table

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/state"
)

// mostNumbers bounds the numbers of HCAs, whatever the name of an entry says.
const mostNumbers = 1 << 12

// decode returns the table that entries are. An HCA whose entry does not read, and an entry
// that belongs to no HCA, are in Unread, and no job gets such an HCA.
func decode(entries map[string]Entry) (t Table) {
	d := decoder{entries, &t}
	for _, path := range in(entries, state.Claims) {
		d.claim(path)
	}
	for _, path := range in(entries, state.Quarantine) {
		d.quarantine(path)
	}
	d.numbers()
	for _, path := range in(entries, state.Shared) {
		var s Shared
		id, is := d.hca(path)
		if is && d.read(path, &s) && s.HCA == id {
			t.Shared = append(t.Shared, s)
		} else {
			d.unread(path, id)
		}
	}
	for _, path := range in(entries, state.Hooked) {
		d.hooked(path)
	}
	for _, path := range in(entries, state.Uplinks) {
		d.uplink(path)
	}
	d.keepUnread()
	return t
}

// decoder fills a table from entries.
type decoder struct {
	entries map[string]Entry
	t       *Table
}

// read reads a file of JSON.
func (d decoder) read(path string, into any) bool {
	e := d.entries[path]
	return !e.Odd && json.Unmarshal([]byte(e.Text), into) == nil
}

// hca returns the HCA whose name an entry has.
func (d decoder) hca(path string) (node.ID, bool) {
	id, err := node.ParseFile(filepath.Base(path))
	return id, err == nil
}

// unread records that an entry does not read. The zero ID stands for no HCA.
func (d decoder) unread(path string, id node.ID) {
	if d.t.Unread == nil {
		d.t.Unread = map[string]node.ID{}
	}
	d.t.Unread[path] = id
}

func (d decoder) claim(path string) {
	id, is := d.hca(path)
	e := d.entries[path]
	job, run, leased := holder(e.Target)
	if !is || !leased || e.Odd {
		d.unread(path, id)
		return
	}
	d.t.Claims = append(d.t.Claims, Claim{HCA: id, Job: job, Run: run, UID: e.UID, Since: e.Time()})
}

// quarantine adds the reason to the claim of a job, or a claim that no lease knows any more.
func (d decoder) quarantine(path string) {
	var c Claim
	id, is := d.hca(path)
	whole := is && d.read(path, &c) && c.HCA == id && c.Quarantined != ""
	if !whole {
		d.unread(path, id)
		c.Quarantined = unreadable(path)
	}
	i := slices.IndexFunc(d.t.Claims, func(o Claim) bool { return o.HCA == id })
	switch {
	case i >= 0:
		d.t.Claims[i].Quarantined = c.Quarantined
	case whole:
		c.Doubt = true
		d.t.Claims = append(d.t.Claims, c)
	}
}

// numbers lists the HCAs by their numbers. A number without an HCA stays, so that it shifts no other
// one, and no job gets it.
func (d decoder) numbers() {
	numbered := map[int]node.HCA{}
	for _, path := range in(d.entries, state.Numbers) {
		n, err := strconv.Atoi(filepath.Base(path))
		name, is := strings.CutPrefix(d.entries[path].Target, "../"+state.HCAs+"/")
		id, bad := node.ParseFile(name)
		if err != nil || n < 0 || n >= mostNumbers || strconv.Itoa(n) != filepath.Base(path) {
			d.unread(path, node.ID{})
			continue
		}
		if !is || bad != nil {
			numbered[n] = lost(n)
			d.unread(path, lost(n).ID)
			continue
		}
		file := filepath.Join(state.HCAs, name)
		h, read := parse(d.entries[file])
		if !read || h.ID != id {
			h = node.HCA{ID: id}
			d.unread(file, id)
		}
		numbered[n] = h
	}
	for n := 0; len(numbered) > 0; n++ {
		h, is := numbered[n]
		if !is {
			h = lost(n)
			d.unread(filepath.Join(state.Numbers, strconv.Itoa(n)), h.ID)
		}
		d.t.HCAs = append(d.t.HCAs, h)
		delete(numbered, n)
	}
	for i, c := range d.t.Claims {
		d.t.Claims[i].Name = cmp.Or(d.name(c.HCA), c.Name)
	}
}

// parsed are the HCAs that this process has read, by their texts: parsing takes longer than the rest.
var parsed sync.Map

func parse(e Entry) (h node.HCA, read bool) {
	if known, is := parsed.Load(e.Text); is {
		return known.(node.HCA), true
	}
	if e.Odd || json.Unmarshal([]byte(e.Text), &h) != nil {
		return node.HCA{}, false
	}
	parsed.Store(e.Text, h)
	return h, true
}

// name returns the name of an HCA's RDMA device, empty if it is not known.
func (d decoder) name(id node.ID) string {
	i := slices.IndexFunc(d.t.HCAs, func(h node.HCA) bool { return h.ID == id.Whole() })
	if i < 0 {
		return ""
	}
	return d.t.HCAs[i].Name
}

// lost stands for the HCA of a number whose link is not there or does not read.
func lost(n int) node.HCA {
	name := fmt.Sprintf("number %d", n)
	return node.HCA{ID: node.ID{GUID: name}, Name: name}
}

// unreadable says why no job gets an HCA whose entry does not read.
func unreadable(path string) string { return path + " does not read" }

// hooked ends by an interface's index, even if what was there before does not read.
func (d decoder) hooked(path string) {
	index, err := strconv.Atoi(filepath.Base(path))
	if err != nil || index <= 0 {
		d.unread(path, node.ID{})
		return
	}
	f := ports.Before{Index: index}
	if !d.read(path, &f) || f.Index != index {
		f = ports.Before{Index: index, Name: fmt.Sprintf("interface %d", index)}
	}
	d.t.Hooked = append(d.t.Hooked, f)
}

// uplink adds an address that a job has. If its link does not read, the address stays taken.
func (d decoder) uplink(path string) {
	a, err := netip.ParseAddr(filepath.Base(path))
	if err != nil {
		d.unread(path, node.ID{})
		return
	}
	job, rest, leased := holder(d.entries[path].Target)
	kind, run, is := strings.Cut(rest, "/")
	if !leased || !is {
		d.unread(path, node.ID{})
		d.t.Uplinks = append(d.t.Uplinks, Uplink{Address: a})
		return
	}
	u := Uplink{Type: kind, Address: a, Job: job, Run: run}
	if kind == auto {
		u.Type, u.Auto = "veth", true
	}
	d.t.Uplinks = append(d.t.Uplinks, u)
}

// auto stands for the type of an automatic uplink, which is a veth.
const auto = "auto"

// keepUnread keeps from all jobs the HCAs whose entry does not read, unless a job has them.
func (d decoder) keepUnread() {
	for path, id := range d.t.Unread {
		if id == (node.ID{}) || slices.ContainsFunc(d.t.Claims, func(c Claim) bool { return c.HCA == id }) {
			continue
		}
		c := Claim{HCA: id, Name: cmp.Or(d.name(id), id.String()), Quarantined: unreadable(path), Doubt: true, unread: true}
		d.t.Claims = append(d.t.Claims, c)
	}
	slices.SortFunc(d.t.Claims, byHCA)
}

func byHCA(a, b Claim) int { return node.Compare(a.HCA, b.HCA) }

// holder reads the target of a link to a lease: ../jobs/JOB/ and the rest.
func holder(target string) (job uint32, rest string, is bool) {
	text, is := strings.CutPrefix(target, "../jobs/")
	number, rest, both := strings.Cut(text, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), rest, is && both && err == nil
}

// encode returns the entries that a table is. What did not read stays as long as its HCA is kept
// from jobs.
func encode(t Table, before map[string]Entry) map[string]Entry {
	all := map[string]Entry{}
	for n, h := range t.HCAs {
		if h.ID != lost(n).ID {
			all[filepath.Join(state.HCAs, h.ID.File())] = file(h)
			all[filepath.Join(state.Numbers, strconv.Itoa(n))] = Entry{Target: "../" + state.HCAs + "/" + h.ID.File()}
		}
	}
	for _, c := range t.Claims {
		name := c.HCA.File()
		if !c.Doubt {
			e := Entry{Target: fmt.Sprintf("../jobs/%d/%s", c.Job, c.Run), UID: c.UID}
			if !c.Since.IsZero() {
				e.Made = c.Since.UnixNano()
			}
			all[filepath.Join(state.Claims, name)] = e
		}
		if (c.Quarantined != "" || c.Doubt) && !c.unread {
			c.Quarantined, c.Doubt = cmp.Or(c.Quarantined, "it is in doubt"), false
			all[filepath.Join(state.Quarantine, name)] = file(c)
		}
	}
	for _, u := range t.Uplinks {
		kind := u.Type
		if u.Auto {
			kind = auto
		}
		if u.Job != 0 {
			all[filepath.Join(state.Uplinks, u.Address.String())] = Entry{Target: fmt.Sprintf("../jobs/%d/%s/%s", u.Job, kind, u.Run)}
		}
	}
	for _, f := range t.Hooked {
		all[filepath.Join(state.Hooked, strconv.Itoa(f.Index))] = file(f)
	}
	for _, s := range t.Shared {
		all[filepath.Join(state.Shared, s.HCA.File())] = file(s)
	}
	for path, id := range t.Unread {
		kept := id == (node.ID{}) || slices.ContainsFunc(t.Claims, func(c Claim) bool { return c.HCA == id && c.Quarantined != "" })
		if e, is := before[path]; is && kept {
			all[path] = e
		}
	}
	return all
}

// file is an entry with JSON.
func file(v any) Entry {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing in a Table is beyond JSON
	}
	return Entry{Text: string(text) + "\n"}
}
