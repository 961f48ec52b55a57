package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/network/jobnet"
)

// writeNames writes the files by which the job's tasks resolve names, if those of the node will
// not do.
func (l Lease) writeNames() error {
	if l.Uplink != nil {
		if err := l.writeResolver(l.Host.Config.Uplink); err != nil {
			return err
		}
	}
	if l.Network == nil {
		return nil
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's hosts: %w", err)
	}
	text, names := Hosts(string(hosts), l.Network.Address())
	if len(names) == 0 {
		return nil
	}
	return writeName(l.World.Dir.Hosts(), text)
}

// Hosts returns a job's /etc/hosts, and the names that mean the node's address there and not on the
// node. Where Debian's says that the node's own name means 127.0.1.1, services of the node listen, and
// none of them is in the job.
func Hosts(node string, own netip.Addr) (text string, names []string) {
	var all strings.Builder
	for line := range strings.Lines(node) {
		entry, _, _ := strings.Cut(line, "#")
		if words := strings.Fields(entry); len(words) > 1 && words[0] == debian {
			line, names = strings.Replace(line, debian, own.String(), 1), append(names, words[1:]...)
		}
		all.WriteString(line)
	}
	return all.String(), names
}

// debian is what Debian's installer gives the node's own name (Debian Reference, 5.1.1).
const debian = "127.0.1.1"

// writeResolver writes the job's resolv.conf, if the site gives one, or if the job cannot reach the
// node's name servers.
func (l Lease) writeResolver(c config.Uplink) error {
	if len(c.Nameservers) > 0 {
		return writeName(l.World.Dir.ResolvConf(), jobnet.ResolvConf(c))
	}
	node, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the node's resolv.conf: %w", err)
	}
	if text := jobnet.Upstream(string(node), l.Host.Run); text != "" {
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
