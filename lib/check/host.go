package check

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// networkManager warns of interfaces that NetworkManager has: what comes home
// it configures as it likes, and what goes it takes for lost.
func (s Site) networkManager() []Finding {
	if _, err := fs.Stat(s.Root, "run/NetworkManager"); err != nil {
		return nil
	}
	var managed []string
	for _, h := range s.Stock.HCAs {
		for _, p := range h.Ports {
			if h.Gres != "" && !h.Keep && p.Interface != "" && s.isManaged(p.Interface) {
				managed = append(managed, p.Interface)
			}
		}
	}
	if len(managed) == 0 {
		return []Finding{ok("NetworkManager", "it leaves the HCAs' interfaces alone")}
	}
	patterns := make([]string, len(managed))
	for i, name := range managed {
		patterns[i] = "interface-name:" + name
	}
	do := "put unmanaged-devices=" + strings.Join(patterns, ";") + " under [keyfile] into a file in /etc/NetworkManager/conf.d"
	return []Finding{warn("NetworkManager", do, "it manages %s", strings.Join(managed, ", "))}
}

// isManaged reads what NetworkManager keeps of a device for its next start
// (NetworkManager src/core/nm-config.c:nm_config_device_state_write).
func (s Site) isManaged(name string) bool {
	index, err := fs.ReadFile(s.Root, "sys/class/net/"+name+"/ifindex")
	if err != nil {
		return false // it is away in a job
	}
	text, err := fs.ReadFile(s.Root, fmt.Sprintf("run/NetworkManager/devices/%s", strings.TrimSpace(string(index))))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "managed" {
			return slices.Contains([]string{"1", "true", "yes"}, value)
		}
	}
	return false
}
