package check

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"gresnet/lib/link"
)

// managers warns of interfaces that another program configures by itself: it
// gives them their addresses when they come home, and an epilog waits for it.
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
	for _, h := range s.Inventory.HCAs {
		for _, p := range h.Ports {
			if h.Gres == "" || h.Keep || p.Interface == "" {
				continue
			}
			text, err := fs.ReadFile(s.Root, "sys/class/net/"+p.Interface+"/ifindex")
			if err != nil {
				continue // it is away in a job
			}
			index, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				continue
			}
			if m, err := link.ManagerOf(run, index); err == nil && m.Name == name {
				managed = append(managed, p.Interface)
			}
		}
	}
	return managed, true
}
