package check

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gresnet/lib/hca/report"
	"gresnet/lib/slurm"
	"gresnet/lib/slurm/plugin"
)

// Fingerprint returns a line that is equal on nodes that are configured alike, whatever jobs they run.
// Where it is not, the word that differs says what is.
func (s Site) Fingerprint(version string) string {
	return strings.Join([]string{
		"gresnet=" + version,
		"config=" + s.configDigest(),
		"slurm=" + s.slurmDigest(),
		"plugin=" + s.pluginDigest(),
		"mode=" + s.modeDigest(),
		"hcas=" + s.hcaDigest(),
	}, " ")
}

// unknown stands for what cannot be read.
const unknown = "error"

func digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return unknown
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:8]
}

// configDigest is that of gresnet.toml, less the GUIDs by which it may name this node's HCAs.
func (s Site) configDigest() string {
	if s.ConfigErr != nil {
		return unknown
	}
	c := s.Config
	c.HCAs = slices.Clone(c.HCAs)
	for i, h := range c.HCAs {
		if h.Match.Key == "guid" {
			c.HCAs[i].Match.Value = ""
		}
	}
	return digest(c)
}

// slurmDigest is that of what Slurm's files say about this node and gresnet.
func (s Site) slurmDigest() string {
	conf, dir, _ := s.readSlurm()
	if conf == nil {
		return unknown
	}
	var said []string
	for _, key := range []string{"prolog", "epilog", "prologflags", "grestypes", "plugindir", "proctracktype", "slurmdparameters", "mpidefault",
		"namespacetype", "jobcontainertype", "prologtimeout", "epilogtimeout", "prologepilogtimeout", "healthcheckprogram"} {
		for _, l := range conf.All(key) {
			said = append(said, key+"="+l.Keys[0].Value)
		}
	}
	stack, err := s.stack(conf, dir)
	if err != nil {
		return unknown
	}
	for _, l := range stack {
		said = append(said, l.String())
	}
	gres, err := slurm.Read(s.Root, path.Join(dir, "gres.conf"))
	if err != nil {
		return unknown
	}
	for _, name := range append([]string{"gpu"}, s.Config.Slurm.Gres...) {
		count, _ := conf.Promised(s.Node, name)
		devices, err := gres.Devices(s.Node, name)
		if err != nil {
			return unknown
		}
		said = append(said, fmt.Sprint(name, count, devices))
	}
	return digest(said)
}

// pluginDigest returns the version of Slurm that the plugin is for, and the digest of its file.
func (s Site) pluginDigest() string {
	conf, dir, _ := s.readSlurm()
	if conf == nil {
		return unknown
	}
	stack, err := s.stack(conf, dir)
	i := slices.IndexFunc(stack, func(l slurm.StackLine) bool { return l.Is("gresnet") })
	if err != nil || i < 0 {
		return "none"
	}
	dirs, _ := plugin.Dirs(s.Root, conf, dir)
	for _, file := range plugin.Files(stack[i].Plugin, dirs) {
		if stamp, err := plugin.ReadStamp(s.Root, file); err == nil {
			return stamp.Version.String() + "/" + s.fileDigest(file)
		}
	}
	return "none"
}

func (s Site) fileDigest(file string) string {
	text, err := fs.ReadFile(s.Root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return unknown
	}
	return digest(text)
}

// modeDigest returns the mode now and after a reboot.
func (s Site) modeDigest() string {
	if s.InventoryErr != nil {
		return unknown
	}
	later, _ := s.modeAtBoot()
	return fmt.Sprintf("%s,%s", s.Inventory.Mode, later)
}

// hcaDigest counts the HCAs that jobs can have, and is the digest of what they are: not of their
// names and identities, nor of what jobs change about them.
func (s Site) hcaDigest() string {
	if s.InventoryErr != nil || s.Drift != nil {
		return unknown
	}
	type alike struct {
		Gres, Type string
		Index      int
		Keep, Take bool
		Driver     string
		Ports      []string
		Serves     []int
	}
	var all []alike
	for _, h := range s.Inventory.HCAs {
		if h.Gres != "" {
			all = append(all, alike{h.Gres, h.Type, h.Number(), h.Keep, h.Take, h.Driver, layers(h), h.Serves})
		}
	}
	return fmt.Sprintf("%d/%s", len(all), digest(all))
}

func layers(h report.HCA) (all []string) {
	for _, p := range h.Ports {
		all = append(all, p.LinkLayer)
	}
	return all
}
