package check

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gresnet/lib/admin/setup"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/slurm"
)

// kernel checks what the kernel offers, and whether it will after a reboot.
func (s Site) kernel() []Finding {
	if s.InventoryErr != nil {
		return []Finding{failed("kernel", s.InventoryErr)}
	}
	all := []Finding{s.mode()}
	all = append(all, s.isolation()...)
	release := s.release()
	for _, h := range s.Inventory.HCAs {
		if f, bad := s.hca(h, release); bad {
			all = append(all, f.Of(h.Name, h.ID))
		}
	}
	return all
}

// isolation finds what jobs cannot have in exclusive mode: the node's network, and before a reboot
// into that mode slots, too.
func (s Site) isolation() []Finding {
	c, why := s.Config, ""
	key, value := c.ForShared()
	switch {
	case s.ConfigErr != nil:
		return nil
	case s.Inventory.Mode == rdma.Exclusive && c.SaysDevices():
		why = "the node is in exclusive mode"
	case s.Inventory.Mode != rdma.Exclusive && c.RDMA.Mode == string(rdma.Exclusive) && key != "":
		why = "gresnet.toml wants exclusive mode after a reboot"
	case c.MovesNothing():
		return []Finding{ok("isolation", `"devices": jobs stay in the node's network, and open their own HCAs alone`)}
	default:
		return nil
	}
	return []Finding{fail(key, "GN085 leave it out, or put the node into shared mode: [rdma] mode", "%q is for shared mode, and %s: prologs of its jobs fail", value, why)}
}

// mode holds the RDMA netns mode against what it is to be, and will be after a reboot.
func (s Site) mode() Finding {
	now, wanted := s.Inventory.Mode, rdma.Mode(s.Config.RDMA.Mode)
	later, where := s.modeAtBoot()
	const enable = "GN086 systemctl enable gresnet.service, which sets it at boot"
	switch {
	case wanted != "" && now != wanted && s.bootService():
		return warn("mode", "GN087 reboot; if it was not set at boot, journalctl -u gresnet.service says why", "it is %s, though gresnet.toml wants %s", now, wanted)
	case wanted != "" && now != wanted:
		return warn("mode", enable+", and reboot", "it is %s, though gresnet.toml wants %s", now, wanted)
	case now == later:
		return ok("mode", "%s, after a reboot too (%s)", now, where)
	case wanted != "":
		return warn("mode", enable, "%s now, %s after a reboot (%s), though gresnet.toml wants %s", now, later, where, wanted)
	case now == rdma.Exclusive:
		return warn("mode", "GN088 gresnet setup --mode exclusive, or cp /usr/share/gresnet/modprobe.conf /etc/modprobe.d/gresnet.conf and renew the initramfs", "%s now, %s after a reboot (%s)", now, later, where)
	case s.bootedWith(where):
		return warn("mode", "GN089 if the initramfs loads ib_core, renew it (update-initramfs -u, dracut -f), and reboot", "%s now, though %s was there at boot and says %s", now, where, later)
	}
	return warn("mode", "GN090 reboot, if exclusive is meant", "%s now, %s after a reboot (%s)", now, later, where)
}

// bootService tells whether gresnet.service runs at boot. Where systemd does not,
// something else is taken to run what it does.
func (s Site) bootService() bool {
	if !slurm.Exists(s.Root, "/run/systemd/system") {
		return true
	}
	links, err := fs.Glob(s.Root, "etc/systemd/system/*.wants/gresnet.service")
	return err == nil && len(links) > 0
}

// bootedWith tells whether a file was there, as it is, when the node booted.
func (s Site) bootedWith(file string) bool {
	info, err := fs.Stat(s.Root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return false // the command line, which is that of this boot
	}
	text, err := fs.ReadFile(s.Root, "proc/stat")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var booted int64
		if n, err := fmt.Sscanf(line, "btime %d", &booted); err == nil && n == 1 {
			return info.ModTime().Unix() < booted
		}
	}
	return false
}

// modeAtBoot returns the mode that gresnet.service sets, or else that ib_core starts
// with: what its parameter is given on the kernel's command line, or else in
// modprobe's files (ib_core's device.c:netns_mode, of which the module parameter's
// default is shared).
func (s Site) modeAtBoot() (mode rdma.Mode, where string) {
	if wanted := s.Config.RDMA.Mode; wanted != "" && s.bootService() {
		return rdma.Mode(wanted), "gresnet.service, as gresnet.toml says"
	}
	if text, err := fs.ReadFile(s.Root, "proc/cmdline"); err == nil {
		if m, is := netnsMode(strings.Fields(string(text)), "ib_core."); is {
			return m, "kernel command line"
		}
	}
	mode, where = rdma.Shared, "the kernel's default"
	dirs := []string{"etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"}
	for _, name := range setup.Settings(s.Root, dirs, "*.conf") {
		if m, is := s.modeIn(name); is {
			mode, where = m, "/"+name
		}
	}
	return mode, where
}

func (s Site) modeIn(name string) (mode rdma.Mode, is bool) {
	text, err := fs.ReadFile(s.Root, name)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "options" && underscored(fields[1]) == "ib_core" {
			if m, there := netnsMode(fields[2:], ""); there {
				mode, is = m, true
			}
		}
	}
	return mode, is
}

// netnsMode returns the last netns_mode among options. It is a bool, shared or not,
// of which the kernel reads the beginning (lib/kstrtox.c:kstrtobool).
func netnsMode(options []string, prefix string) (mode rdma.Mode, is bool) {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		if underscored(name) != prefix+"netns_mode" {
			continue
		}
		mode, is = rdma.Shared, true
		if v := strings.ToLower(strings.Trim(value, `"`)); v != "" && strings.ContainsRune("0nf", rune(v[0])) || strings.HasPrefix(v, "of") {
			mode = rdma.Exclusive
		}
	}
	return mode, is
}

// underscored returns a module's or a parameter's name as the kernel compares it.
func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// release is the kernel's version, like 6.12; zeros if it cannot be told.
type release struct{ major, minor int }

func (s Site) release() release {
	var r release
	text, err := fs.ReadFile(s.Root, "proc/sys/kernel/osrelease")
	if err != nil {
		return r
	}
	if _, err := fmt.Sscanf(string(text), "%d.%d", &r.major, &r.minor); err != nil {
		return release{}
	}
	return r
}

func (r release) before(o release) bool {
	return r.major < o.major || r.major == o.major && r.minor < o.minor
}

// drivers says since which release an RDMA device can be moved (its driver has
// disassociate_ucontext, without which device.c:ib_device_set_netns_put refuses),
// and since which it outlives its interface's move. Drivers that are not here always could.
func drivers(name string) (moves, stays release) {
	never := release{1 << 20, 0}
	switch name {
	case "bnxt_re":
		return release{6, 5}, release{6, 12}
	case "erdma":
		return release{6, 12}, release{}
	case "rxe":
		return release{7, 3}, never
	case "siw":
		return never, never
	case "efa", "qedr", "ocrdma", "usnic", "cxgb4", "mthca", "qib", "hfi1", "vmw_pvrdma":
		return never, release{}
	}
	return release{}, release{}
}

// hca checks one HCA that jobs may get.
func (s Site) hca(h report.HCA, r release) (f Finding, bad bool) {
	if h.Gres == "" && s.ConfigErr == nil && s.Drift == nil {
		return Finding{}, false
	}
	about := "HCA " + h.Name
	moves, stays := drivers(h.Driver)
	switch {
	case h.Claim != nil && h.Claim.Quarantined != "":
		return fail(about, "GN091 fix the cause, then gresnet release "+h.Name, "it is quarantined: %s", h.Claim.Quarantined), true
	case h.Away && h.Claim == nil:
		return fail(about, "GN092 see whether its driver is loaded, and whether it is in another network namespace", "it is in the mapping and not on the node"), true
	case !h.Away && !hasVerbs(h):
		return fail(about, "GN093 load ib_uverbs", "it has no uverbs device, without which no program can use it"), true
	case r != release{} && s.Inventory.Mode == rdma.Exclusive && r.before(moves):
		return fail(about, "GN094 use shared mode, or leave it out of the mapping", "driver %s cannot be moved on this kernel", h.Driver), true
	case r != release{} && s.Inventory.Mode == rdma.Shared && !h.Keep && hasInterface(h) && r.before(stays):
		return fail(about, `GN095 set interface = "keep" in its [[hca]]`, "driver %s ends the RDMA device when its interface is moved", h.Driver), true
	case !h.Away && h.Claim == nil && isDown(h):
		return fail(about, "GN096 bring it up, or see its cable and switch: "+look(h), "%s: a job that has it reaches nobody by it", states(h)), true
	}
	return Finding{}, false
}

// isDown tells whether no port of an HCA carries anything.
func isDown(h report.HCA) bool {
	return len(h.Ports) > 0 && !slices.ContainsFunc(h.Ports, func(p report.Port) bool { return p.State == "" || p.State == "ACTIVE" })
}

// states says in which state each port is.
func states(h report.HCA) string {
	var all []string
	for _, p := range h.Ports {
		all = append(all, fmt.Sprintf("port %d is %s", p.Num, p.State))
	}
	return strings.Join(all, ", ")
}

// look returns the command that shows why a port is down.
func look(h report.HCA) string {
	for _, p := range h.Ports {
		if p.Interface != "" && p.LinkLayer == "Ethernet" {
			return "ip link set " + p.Interface + " up; ip link show " + p.Interface
		}
	}
	return "ibstat " + h.Name
}

func hasVerbs(h report.HCA) bool {
	return slices.ContainsFunc(h.Chars, func(c report.Char) bool { return c.Kind == "uverbs" })
}

func hasInterface(h report.HCA) bool {
	return slices.ContainsFunc(h.Ports, func(p report.Port) bool { return p.Interface != "" })
}
