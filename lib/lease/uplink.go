package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/lock"
	"gresnet/lib/netns"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/uplink"
)

// pool is where jobs get their uplinks from; nil if they have none.
func (l *open) pool() (*uplink.Pool, error) {
	if !l.node.Config.Uplink.On() {
		return nil, nil
	}
	var pool uplink.Pool
	err := l.world.OnHost(func(v *scan.View) error {
		n, err := uplink.Look(v.Link)
		if err != nil {
			return err
		}
		pool, err = uplink.New(l.node.Config.Uplink, n)
		return err
	})
	return &pool, err
}

// Uplinks is where the node's jobs would get their uplinks from now, for one who
// only wants to know; nil if they have none.
func (n *Node) Uplinks() (*uplink.Pool, error) {
	looking, done, err := n.looking(context.Background(), 0)
	if err != nil {
		return nil, err
	}
	defer done()
	return looking.pool()
}

// looking is a lease that is none, for looks at the node.
func (n *Node) looking(ctx context.Context, job uint32) (l *open, done func(), err error) {
	host, err := netns.Current()
	if err != nil {
		return nil, nil, err
	}
	w := &step.World{
		Host: host, Sys: n.Sys, Dev: n.Dev, Dir: n.dir(job), Job: job, Context: ctx, Table: n.table(), Locks: n.locks(),
	}
	return &open{node: n, world: w}, func() { w.Close(); host.Close() }, nil
}

// pickUplink takes an address for a job in the table, if jobs have uplinks.
func pickUplink(t *lock.Table, pool *uplink.Pool, job uint32, run string) error {
	if pool == nil {
		return nil
	}
	a, err := pool.Free(t.Addresses())
	if err != nil {
		return err
	}
	t.Uplinks = append(t.Uplinks, lock.Uplink{Type: pool.Kind, Address: a, Job: job, Run: run})
	return nil
}

// uplinkStep is the step that makes an uplink; nil if the job has none.
func uplinkStep(pool *uplink.Pool, u *lock.Uplink) *step.Uplink {
	if pool == nil || u == nil {
		return nil
	}
	return &step.Uplink{Type: u.Type, Address: u.Address, NAT: pool.NAT, Pool: *pool}
}

// uplinkFrom is an uplink of which the table alone speaks.
func uplinkFrom(u lock.Uplink) *step.Uplink {
	return &step.Uplink{Type: u.Type, Address: u.Address, NAT: u.Type == config.UplinkVeth}
}

// dropUplink removes the uplink of a job whose lease is gone, and frees its address.
func (n *Node) dropUplink(ctx context.Context, u lock.Uplink) error {
	l, done, err := n.looking(ctx, u.Job)
	if err != nil {
		return err
	}
	defer done()
	l.world.Run = u.Run
	s := uplinkFrom(u)
	if err := s.Undo(l.world); err != nil {
		return remains(err)
	}
	return n.table().Update(ctx, func(t *lock.Table) error {
		t.FreeUplink(u.Job, u.Run)
		return nil
	})
}

// dropUplinks does so for all that a job has.
func (n *Node) dropUplinks(ctx context.Context, id uint32, t lock.Table) error {
	var failed []error
	for _, u := range t.Uplinks {
		if u.Job == id {
			failed = append(failed, n.dropUplink(ctx, u))
		}
	}
	return errors.Join(failed...)
}

// hostsIn and resolvIn are the files that the SPANK plugin puts over /etc/hosts and
// /etc/resolv.conf of the job's tasks.
func hostsIn(dir string) string  { return filepath.Join(dir, "hosts") }
func resolvIn(dir string) string { return filepath.Join(dir, "resolv.conf") }

// writeNames writes what the job's tasks resolve names by, where the node's own
// files do not do.
func (l *open) writeNames(u *lock.Uplink) error {
	c := l.node.Config.Uplink
	if u == nil {
		return nil
	}
	if len(c.Nameservers) > 0 {
		if err := writeName(resolvIn(l.world.Dir), resolvConf(c)); err != nil {
			return err
		}
	}
	if !c.OwnName {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the node's name: %w", err)
	}
	node, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's hosts: %w", err)
	}
	return writeName(hostsIn(l.world.Dir), ownHosts(string(node), name, u.Address))
}

// writeName writes a file that every user may read.
func writeName(path, text string) error {
	// The umask is slurmd's.
	err := os.WriteFile(path, []byte(text), 0o644)
	if err == nil {
		err = os.Chmod(path, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func resolvConf(c config.Uplink) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# gresnet.toml, [uplink]")
	if len(c.Search) > 0 {
		fmt.Fprintln(&b, "search", strings.Join(c.Search, " "))
	}
	for _, a := range c.Nameservers {
		fmt.Fprintln(&b, "nameserver", a)
	}
	return b.String()
}

// ownHosts is the node's hosts with the node's own names meaning another address:
// its line, whatever the address, gives the names away.
func ownHosts(node, name string, a netip.Addr) string {
	short, _, _ := strings.Cut(name, ".")
	names := []string{name}
	var rest strings.Builder
	for line := range strings.Lines(node) {
		entry, _, _ := strings.Cut(line, "#")
		words := strings.Fields(entry)
		own := len(words) > 1 && slices.ContainsFunc(words[1:], func(w string) bool { return w == name || w == short })
		if !own {
			rest.WriteString(strings.TrimRight(line, "\n") + "\n")
			continue
		}
		var others []string
		for _, w := range words[1:] {
			switch {
			case w == name || w == short || strings.HasPrefix(w, short+"."):
				names = append(names, w)
			default:
				others = append(others, w)
			}
		}
		if len(others) > 0 {
			fmt.Fprintln(&rest, words[0], strings.Join(others, " "))
		}
	}
	if !slices.Contains(names, short) {
		names = append(names, short)
	}
	// The first is the canonical name: one with a domain, if there is any (hosts(5)).
	slices.SortStableFunc(names, func(a, b string) int { return strings.Count(b, ".") - strings.Count(a, ".") })
	return fmt.Sprintf("%s %s\n%s", a, strings.Join(slices.Compact(names), " "), rest.String())
}
