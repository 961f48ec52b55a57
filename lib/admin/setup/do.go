package setup

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/state"
)

// Store is where the copies are of files that setup has changed, and the record of what it did.
const Store = "/var/lib/gresnet/setup"

// Node is where a plan is carried out.
type Node struct {
	Root    string                   // "/", but in tests
	Network func(file string) string // the kind of file system, if other hosts have the file, too
	Devices Devices                  // nil: the node has none
	Records *Records                 // nil: no job is held to records
	action  func()                   // before each change of the node: tests stop here
}

// Devices are the node's own device nodes of HCAs, which the programs restrict once the node is set up.
type Devices interface {
	Idle() error // fails if a job has a lease
	Picture() (devnode.Picture, error)
	Reopen(devnode.Picture) error // to users; no run restricts them from then on
	Redo() error                  // runs restrict them again
}

// Records says which jobs are held to the records of their prologs.
type Records struct {
	State state.Dir
	Gres  []string // that they ask for
}

// expected is where that is said for all boots. The state directory has it for this one.
const expected = Store + "/expected"

// record says how to undo. It is written before the first action.
type record struct {
	Entries []entry  `json:"entries"`
	Dirs    []string `json:"dirs"` // that setup makes, outer ones first

	Called []entry `json:"called,omitempty"` // scripts that undo has left for a slurmd that still calls them

	Devices *devnode.Picture `json:"devices,omitempty"` // before the first run
}

// entry is a file as it was. It is restored if it still is as setup made it.
type entry struct {
	Path   string      `json:"path"`
	Before string      `json:"before"`
	After  []string    `json:"after"`           // one for each run of setup
	Lines  []string    `json:"lines,omitempty"` // what these took out, after "- ", and put in, after "+ "
	Copy   string      `json:"copy,omitempty"`
	Mode   fs.FileMode `json:"mode"`
	UID    int         `json:"uid"`
	GID    int         `json:"gid"`
	Time   time.Time   `json:"time"`
}

// last returns the latest entry of a file, nil if there is none.
func (r *record) last(file string) *entry {
	for i := range slices.Backward(r.Entries) {
		if r.Entries[i].Path == file {
			return &r.Entries[i]
		}
	}
	return nil
}

// count returns how many entries a file has.
func (r *record) count(file string) (n int) {
	for _, o := range r.Entries {
		if o.Path == file {
			n++
		}
	}
	return n
}

func (n Node) at(file string) string { return filepath.Join(n.Root, file) }

func (n Node) before() {
	if n.action != nil {
		n.action()
	}
}

// Check finds files that setup must not replace.
func (n Node) Check(p Plan) (all []Refusal) {
	const byHand = "GN228 make the changes by hand: gresnet(7), Install by hand; then gresnet check"
	for _, e := range p.Edits {
		if e.Link != "" || e.Placeholder {
			continue // a unit's link, or a file that gres.conf names
		}
		if e.There {
			info, err := os.Lstat(n.at(e.Path))
			if err != nil {
				all = append(all, Refusal{err.Error(), "GN229 run setup again"})
				continue
			}
			if stat, is := info.Sys().(*syscall.Stat_t); is && stat.Nlink > 1 {
				all = append(all, Refusal{e.Path + " has another name, too (a hard link)", byHand})
			}
		}
		if kind := n.Shared(e.Path); kind != "" {
			all = append(all, Refusal{e.Path + " is on " + kind + ", so other hosts have it, too", byHand})
		}
	}
	return all
}

// Shared returns the kind of a file system, if other hosts have a file, too. A new file is theirs by its folder.
func (n Node) Shared(file string) string {
	if n.Network == nil {
		return ""
	}
	there := n.at(file)
	if _, err := os.Lstat(there); err != nil {
		there = n.folderOf(file)
	}
	return n.Network(there)
}

// folderOf returns the folder that a new file comes into, or the one that its folder will be made in.
func (n Node) folderOf(file string) string {
	dir := filepath.Dir(file)
	for dir != "/" {
		if _, err := os.Stat(n.at(dir)); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return n.at(dir)
}

// Do carries out a plan. Killed anywhere it leaves whole files, and Undo knows of all.
func (n Node) Do(p Plan) error {
	r, err := n.read()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.at(Store), 0o700); err != nil {
		return fmt.Errorf("make the folder for copies: %w", err)
	}
	if err := n.noteDevices(&r); err != nil {
		return err
	}
	for _, e := range p.Edits {
		if err := n.note(&r, e); err != nil {
			return err
		}
	}
	if err := n.write(r); err != nil {
		return err
	}
	if err := n.Expect(); err != nil {
		return err
	}
	for _, e := range p.Edits {
		if err := n.apply(e, r); err != nil {
			return fmt.Errorf("change %s: %w", e.Path, err)
		}
	}
	return n.Redo()
}

// Redo has runs restrict device nodes again, if Undo said that none shall.
func (n Node) Redo() error {
	if n.Devices == nil {
		return nil
	}
	n.before()
	return n.Devices.Redo()
}

// Expect holds each job that begins from now on to the record of its prolog.
func (n Node) Expect() error {
	if n.Records == nil {
		return nil
	}
	if err := os.MkdirAll(n.at(Store), 0o700); err != nil {
		return fmt.Errorf("make the folder for copies: %w", err)
	}
	n.before()
	if err := state.ExpectForGood(n.at(expected), n.Records.Gres, time.Now()); err != nil {
		return err
	}
	return n.Records.State.Expect(n.Records.Gres, state.ExpectedSince(n.at(expected), time.Time{}))
}

// noteDevices notes who can open device nodes, unless an earlier run did.
func (n Node) noteDevices(r *record) error {
	if n.Devices == nil || r.Devices != nil {
		return nil
	}
	p, err := n.Devices.Picture()
	r.Devices = &p
	return err
}

// note adds to the record how to undo an edit, and makes a copy of the file.
func (n Node) note(r *record, e Edit) error {
	now, err := n.state(e.Path)
	if err != nil {
		return err
	}
	planned := absent
	if e.There {
		planned = digest(e.Before)
	}
	if now != planned {
		return hint.With(fmt.Errorf("change %s: it is another one than a moment ago", e.Path), "GN230 run setup again")
	}
	// Of a file that somebody else has changed since there is one entry more: Undo gives their
	// version back, and leaves it.
	if o := r.last(e.Path); o != nil && (now == o.Before || slices.Contains(o.After, now)) {
		o.After = append(o.After, e.becomes())
		o.Lines = append(o.Lines, e.difference()...)
		return nil
	}
	o := entry{Path: e.Path, Before: now, After: []string{e.becomes()}, Lines: e.difference()}
	if e.There {
		info, err := os.Lstat(n.at(e.Path))
		if err != nil {
			return err
		}
		o.Mode, o.Time = info.Mode(), info.ModTime()
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			o.UID, o.GID = int(stat.Uid), int(stat.Gid)
		}
		o.Copy = strings.ReplaceAll(strings.TrimPrefix(e.Path, "/"), "/", "+")
		if n := r.count(e.Path); n > 0 {
			o.Copy += fmt.Sprintf(".%d", n)
		}
		if err := n.put(filepath.Join(Store, o.Copy), e.Before, entry{Mode: 0o600}); err != nil {
			return fmt.Errorf("copy %s: %w", e.Path, err)
		}
	}
	for dir := filepath.Dir(e.Path); dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(n.at(dir)); errors.Is(err, fs.ErrNotExist) && !slices.Contains(r.Dirs, dir) {
			r.Dirs = append(r.Dirs, dir)
		}
	}
	slices.Sort(r.Dirs)
	r.Entries = append(r.Entries, o)
	return nil
}

// apply makes a file what the plan says, with the owner and the mode that it had.
func (n Node) apply(e Edit, r record) error {
	n.before()
	if err := os.MkdirAll(filepath.Dir(n.at(e.Path)), 0o755); err != nil {
		return err
	}
	switch {
	case e.Link != "":
		return n.link(e.Path, e.Link)
	case e.Placeholder:
		return n.placeholder(e.Path)
	}
	as := entry{Mode: e.Mode}
	if o := r.last(e.Path); o != nil && o.Before != absent {
		as = *o
		as.Time = time.Time{}
	}
	return n.put(e.Path, e.After, as)
}

// Undo restores what setup changed, byte for byte, and says what it leaves: files that somebody
// else has changed since. It opens the device nodes again that gresnet has restricted. While a job
// has a lease it does nothing. A slurmd that calls the scripts for Prolog and Epilog until it is restarted would
// drain the node without them: with called they stay, until an Undo without it.
func (n Node) Undo(called bool) (undone []string, left []string, err error) {
	r, err := n.read()
	if err != nil {
		return nil, nil, err
	}
	if len(r.Entries) == 0 {
		return n.undoScripts(r, called)
	}
	if n.Devices != nil {
		if err := n.Devices.Idle(); err != nil {
			return nil, nil, err
		}
	}
	if r = r.called(); !called {
		r.Entries, r.Called = append(r.Entries, r.Called...), nil
	}
	undone, kept, err := n.restoreAll(r)
	if err == nil {
		left, kept, err = n.leftOf(r, kept)
	}
	undone = slices.DeleteFunc(undone, func(file string) bool { return slices.Contains(left, file) })
	if err == nil {
		err = n.reopen(r)
	}
	if err == nil && n.Records != nil {
		n.before()
		err = state.ForgetExpected(n.at(expected), n.Records.State.Expected())
	}
	if err != nil {
		return undone, left, err
	}
	if len(kept)+len(r.Called) > 0 {
		// Who can open device nodes is the site's to say from now on: the next setup looks again.
		return undone, left, n.write(record{Entries: kept, Dirs: r.Dirs, Called: r.Called})
	}
	return undone, left, n.forget(r)
}

// called returns the record with its scripts for Prolog and Epilog among those that slurmd calls.
func (r record) called() record {
	var others []entry
	for _, o := range r.Entries {
		if base := filepath.Base(o.Path); o.Before == absent && (base == filepath.Base(prolog) || base == filepath.Base(epilog)) {
			r.Called = append(r.Called, o)
		} else {
			others = append(others, o)
		}
	}
	r.Entries = others
	return r
}

// undoScripts ends an undo that has left scripts, unless slurmd still calls them.
func (n Node) undoScripts(r record, called bool) (undone, left []string, err error) {
	if called && len(r.Called) > 0 {
		return nil, nil, nil
	}
	undone, _, err = n.restoreAll(record{Entries: r.Called}) // one that somebody has changed stays: it is in no file of Slurm's
	if err != nil {
		return undone, nil, err
	}
	return undone, nil, n.forget(r)
}

// Called returns the scripts that undo has left for slurmd.
func (n Node) Called() (files []string, err error) {
	r, err := n.read()
	for _, o := range r.Called {
		files = append(files, o.Path)
	}
	return files, err
}

// ByHand returns what a person must do to a file that Undo has left: the lines to take out, after "- ", and to
// put back, after "+ ".
func (n Node) ByHand(file string) ([]string, error) {
	r, err := n.read()
	if err != nil {
		return nil, err
	}
	return n.byHand(file, r.Entries)
}

func (n Node) byHand(file string, entries []entry) (all []string, err error) {
	data, err := os.ReadFile(n.at(file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	has := func(line string) bool {
		return slices.ContainsFunc(slices.Collect(strings.Lines(string(data))), func(l string) bool { return strings.TrimRight(l, "\r\n") == line })
	}
	first, made := true, map[string]bool{}
	for _, o := range entries {
		if o.Path != file {
			continue
		}
		for _, l := range o.Lines {
			switch text, put := strings.CutPrefix(l, "+ "); {
			case put && strings.TrimSpace(text) != "" && has(text) && !made[text]:
				made[text] = true
				all = append(all, "- "+text)
			case !put && first && !has(l[2:]): // a later one took out what a person, or setup, had put in
				all = append(all, "+ "+l[2:])
			}
		}
		first = false
	}
	return all, nil
}

// leftOf returns the files of entries that Undo keeps, and the entries of these. A file is left no more when a
// person has restored it: it is as setup found it, or has all of setup's lines as they were.
func (n Node) leftOf(r record, kept []entry) (left []string, entries []entry, err error) {
	done := map[string]bool{}
	for _, o := range kept {
		is, asked := done[o.Path]
		if !asked {
			if is, err = n.isRestored(o.Path, r); err != nil {
				return nil, nil, err
			}
			done[o.Path] = is
			if !is {
				left = append(left, o.Path)
			}
		}
		if !is {
			entries = append(entries, o)
		}
	}
	return left, entries, nil
}

func (n Node) isRestored(file string, r record) (bool, error) {
	of := slices.DeleteFunc(slices.Clone(r.Entries), func(o entry) bool { return o.Path != file })
	now, err := n.state(file)
	if err != nil || now == of[0].Before {
		return err == nil, err
	}
	if slices.ContainsFunc(of, func(o entry) bool { return len(o.Lines) == 0 }) {
		return false, nil // a link, or a placeholder
	}
	lines, err := n.byHand(file, of)
	return err == nil && len(lines) == 0, err
}

// restoreAll restores all files that nobody else has changed. kept are the entries of the others.
func (n Node) restoreAll(r record) (undone []string, kept []entry, err error) {
	for _, o := range slices.Backward(r.Entries) {
		now, err := n.state(o.Path)
		if err != nil {
			return undone, kept, err
		}
		switch {
		case now == o.Before:
		case slices.Contains(o.After, now), o.Path == enabled && slices.ContainsFunc(units(), func(u string) bool { return now == "link:"+u }):
			if err := n.restore(o); err != nil {
				return undone, kept, fmt.Errorf("restore %s: %w", o.Path, err)
			}
			undone = append(undone, o.Path)
		default:
			kept = append(kept, o)
		}
		if err := remove(n.at(temporary(o.Path))); err != nil {
			return undone, kept, err
		}
	}
	slices.Reverse(kept)
	return undone, kept, nil
}

// reopen opens the device nodes to users again.
func (n Node) reopen(r record) error {
	if n.Devices == nil {
		return nil
	}
	if r.Devices == nil {
		r.Devices = new(devnode.Picture) // the node had no HCA then
	}
	n.before()
	return n.Devices.Reopen(*r.Devices)
}

// forget removes the record, and the folders that setup made, if nothing else is in them.
func (n Node) forget(r record) error {
	for _, dir := range slices.Backward(r.Dirs) {
		n.before()
		if err := os.Remove(n.at(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	n.before()
	if err := remove(n.at(recordFile)); err != nil {
		return err
	}
	n.before()
	return os.RemoveAll(n.at(Store))
}

// restore restores one file.
func (n Node) restore(o entry) error {
	n.before()
	if o.Before == absent {
		return remove(n.at(o.Path))
	}
	data, err := os.ReadFile(n.at(filepath.Join(Store, o.Copy)))
	if err != nil {
		return err
	}
	return n.put(o.Path, data, o)
}

const recordFile = Store + "/record.json"

// read reads the record; an empty one if there is none.
func (n Node) read() (r record, err error) {
	data, err := os.ReadFile(n.at(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, hint.With(fmt.Errorf("read what setup did: %w", err), "GN232 put the files back by hand, from their copies in "+Store)
	}
	return r, nil
}

func (n Node) write(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return n.put(recordFile, append(data, '\n'), entry{Mode: 0o600})
}

// The states of files without a content: not there, and a placeholder.
const (
	absent      = "absent"
	placeholder = "placeholder"
)

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func (e Edit) becomes() string {
	switch {
	case e.Link != "":
		return "link:" + e.Link
	case e.Placeholder:
		return placeholder
	}
	return digest(e.After)
}

// state returns what a file is now, as the record has it.
func (n Node) state(file string) (string, error) {
	info, err := os.Lstat(n.at(file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(n.at(file))
		return "link:" + to, err
	case isPlaceholder(info):
		return placeholder, nil
	case !info.Mode().IsRegular():
		return "other", nil
	}
	data, err := os.ReadFile(n.at(file))
	return digest(data), err
}

// temporary returns what a file is called before it has its name. No pattern of a prolog.d matches it.
func temporary(file string) string {
	return filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".gresnet-setup")
}

// put makes a file again, whole or not at all.
func (n Node) put(file string, data []byte, as entry) (err error) {
	n.before()
	name := n.at(temporary(file))
	if err := remove(name); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chown(as.UID, as.GID), f.Chmod(as.Mode), keepAttributes(n.at(file), f), f.Sync(), f.Close())
	if err == nil && !as.Time.IsZero() {
		err = os.Chtimes(name, as.Time, as.Time)
	}
	if err != nil {
		return errors.Join(err, remove(name))
	}
	n.before()
	if err := os.Rename(name, n.at(file)); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(n.at(file)))
}

func isPlaceholder(info fs.FileInfo) bool {
	stat, is := info.Sys().(*syscall.Stat_t)
	return is && info.Mode()&fs.ModeCharDevice != 0 && stat.Rdev == report.Placeholder()
}

func (n Node) placeholder(file string) error { return n.make(file, report.MakePlaceholder) }

func (n Node) link(file, to string) error {
	return n.make(file, func(name string) error { return os.Symlink(to, name) })
}

// make makes what is no regular file, and gives it its name.
func (n Node) make(file string, as func(name string) error) error {
	name := n.at(temporary(file))
	if err := remove(name); err != nil {
		return err
	}
	if err := as(name); err != nil {
		return err
	}
	n.before()
	if err := os.Rename(name, n.at(file)); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(n.at(file)))
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
