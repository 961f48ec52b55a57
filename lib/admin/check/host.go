package check

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"gresnet/lib/link"
)

// managers warns of interfaces that another program configures by itself: it
// gives them their addresses when they come back, and an epilog waits for it.
func (s Site) managers() (all []Finding) {
	for _, m := range []struct{ name, do string }{
		{link.NetworkManager, "GN014 put unmanaged-devices=%s under [keyfile] into a file in /etc/NetworkManager/conf.d"},
		{link.Networkd, "GN015 put Unmanaged=yes under [Link] into the .network file of %s"},
	} {
		managed, ran := s.managedBy(m.name)
		switch {
		case len(managed) > 0 && m.name == link.NetworkManager:
			all = append(all, warn(m.name, fmt.Sprintf(m.do, "interface-name:"+strings.Join(managed, ";interface-name:")), "it manages %s", strings.Join(managed, ", ")))
		case len(managed) > 0:
			all = append(all, warn(m.name, fmt.Sprintf(m.do, strings.Join(managed, ", ")), "it manages %s", strings.Join(managed, ", ")))
		case ran:
			all = append(all, ok(m.name, "it leaves the HCAs' interfaces alone"))
		}
	}
	return all
}

// managedBy returns the interfaces that jobs may have and a manager configures, and
// whether the manager runs on this node at all.
func (s Site) managedBy(name string) (managed []string, ran bool) {
	dir := map[string]string{link.NetworkManager: "run/NetworkManager", link.Networkd: "run/systemd/netif/links"}[name]
	if _, err := fs.Stat(s.Root, dir); err != nil {
		return nil, false
	}
	run, err := fs.Sub(s.Root, "run")
	if err != nil {
		return nil, false
	}
	for _, i := range s.Movable() {
		text, err := fs.ReadFile(s.Root, "sys/class/net/"+i+"/ifindex")
		if err != nil {
			continue // it is away in a job
		}
		index, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		if m, err := link.ManagerOf(run, index); err == nil && m.Name == name {
			managed = append(managed, i)
		}
	}
	return managed, true
}

// Movable returns the interfaces that jobs can have.
func (s Site) Movable() (names []string) {
	for _, h := range s.Inventory.HCAs {
		for _, p := range h.Ports {
			if h.Gres != "" && !h.Keep && p.Interface != "" {
				names = append(names, p.Interface)
			}
		}
	}
	return names
}

// bound warns of services that end when a job gets an interface. When ifupdown's ends late, it takes the
// addresses of an interface that is back again.
func (s Site) bound() (all []Finding) {
	if s.BoundErr != nil {
		return []Finding{warn("systemd", "GN660 see systemctl status", "what it stops when an interface goes to a job is not known: %s", s.BoundErr)}
	}
	for _, b := range s.Bounds {
		if strings.HasPrefix(b.Unit, "ifup@") {
			all = append(all, warn("ifupdown", fmt.Sprintf("GN662 write auto in place of allow-hotplug for %s in /etc/network/interfaces, and reboot", b.Interface), "%s ends when %s goes to a job", b.Unit, b.Interface))
			continue
		}
		all = append(all, warn("systemd", "GN661 take BindsTo= out of it, or leave the HCA out of [[hca]]", "it stops %s when %s goes to a job", b.Unit, b.Interface))
	}
	return all
}
