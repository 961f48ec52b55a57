package environment

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

// writeNames writes the files by which the job's tasks resolve names, if those of the node will
// not do.
func (l Lease) writeNames() error {
	c := l.Host.Config.Uplink
	u, network := l.Uplink, l.Network
	if u != nil {
		if err := l.writeResolver(c); err != nil {
			return err
		}
	}
	text, own, err := Hosts(c, u, network)
	if errors.Is(err, fs.ErrNotExist) {
		l.Host.Notice(l.Job.ID, "the node has no /etc/hosts that the job's could cover: names mean inside what they mean on the node")
		return nil
	}
	if err != nil || len(own) == 0 {
		return err
	}
	return writeName(l.World.Dir.Hosts(), text)
}

// Hosts returns the text of the job's /etc/hosts, and the names in it that are the job's own. Without
// any the node's file will do.
func Hosts(c config.Uplink, u *table.Uplink, network *overlay.Network) (text string, own []uplink.Names, err error) {
	if network == nil && (u == nil || !c.OwnName) {
		return "", nil, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", nil, fmt.Errorf("read the node's name: %w", err)
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return "", nil, fmt.Errorf("read the node's hosts: %w", err)
	}
	if network == nil {
		own = []uplink.Names{uplink.NamesOf(u.Address, "", name)}
		return uplink.HostsFile(string(hosts), own), own, nil
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	own = network.Names(name, uplink.SearchIn(string(resolv)))
	return uplink.HostsFile(string(hosts), own), own, nil
}

// writeResolver writes the job's resolv.conf, if the site gives one, or if the job cannot reach the
// node's name servers.
func (l Lease) writeResolver(c config.Uplink) error {
	if len(c.Nameservers) > 0 {
		return writeName(l.World.Dir.ResolvConf(), uplink.ResolvConf(c))
	}
	node, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	if text := uplink.Upstream(string(node), l.Host.Run); text != "" {
		return writeName(l.World.Dir.ResolvConf(), text)
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
