package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gresnet/lib/config"
	"gresnet/lib/overlay"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
)

// hostsIn and resolvIn return the files that the SPANK plugin mounts over /etc/hosts and
// /etc/resolv.conf of the job's tasks.
func hostsIn(dir string) string  { return filepath.Join(dir, "hosts") }
func resolvIn(dir string) string { return filepath.Join(dir, "resolv.conf") }

// writeNames writes the files by which the job's tasks resolve names, where those of the node will
// not do.
func (l *open) writeNames(u *table.Uplink, network *overlay.Network) error {
	c := l.node.Config.Uplink
	if u != nil {
		if err := l.writeResolver(c); err != nil {
			return err
		}
	}
	if network == nil && (u == nil || !c.OwnName) {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the node's name: %w", err)
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if errors.Is(err, fs.ErrNotExist) {
		l.node.Notice(l.world.Job, "the node has no /etc/hosts that the job's could cover: names mean inside what they mean on the node")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the node's hosts: %w", err)
	}
	if network == nil {
		return writeName(hostsIn(l.world.Dir), uplink.HostsFile(string(hosts), []uplink.Names{uplink.NamesOf(u.Address, "", name)}))
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	return writeName(hostsIn(l.world.Dir), uplink.HostsFile(string(hosts), network.Names(name, uplink.SearchIn(string(resolv)))))
}

// writeResolver writes the job's resolv.conf, if the site gives one, or if the job cannot reach the
// node's name servers.
func (l *open) writeResolver(c config.Uplink) error {
	if len(c.Nameservers) > 0 {
		return writeName(resolvIn(l.world.Dir), uplink.ResolvConf(c))
	}
	node, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	if text := uplink.Upstream(string(node), l.node.Run); text != "" {
		return writeName(resolvIn(l.world.Dir), text)
	}
	return nil
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
