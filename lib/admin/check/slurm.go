package check

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/admin/setup"
	"gresnet/lib/base/config"
	"gresnet/lib/base/poll"
	"gresnet/lib/slurm"
)

// slurm checks what Slurm's own files say.
func (s Site) slurm() []Finding {
	conf, dir, missing := s.readSlurm()
	if conf == nil {
		return missing
	}
	if name, err := conf.Node(s.Node); err == nil { // Faults says what is wrong with the line
		s.Node = name
	}
	all := append(s.planned(), s.deadlines(conf)...)
	all = append(all, s.plugstack(conf, dir)...)
	all = append(all, s.namespaces(conf, dir)...)
	all = append(all, s.hides(conf, dir)...)
	all = append(all, s.health(conf)...)
	all = append(all, s.proctrack(conf)...)
	all = append(all, s.services(conf)...)
	all = append(all, s.accounts(conf)...)
	return append(all, s.gres(conf, dir)...)
}

// readSlurm reads slurm.conf, and says which folder it is in.
func (s Site) readSlurm() (conf slurm.Conf, dir string, missing []Finding) {
	file := slurm.Find(s.Root, s.SlurmConf)
	if file == "" {
		return nil, "", []Finding{warn("slurm.conf", "GN124 set SLURM_CONF to its path", "it is in none of %s: Slurm's configuration is not checked", strings.Join(slurm.Places(), ", "))}
	}
	conf, err := slurm.Read(s.Root, file)
	if err != nil {
		return nil, "", []Finding{fail("slurm.conf", "GN125 correct the line, which slurmd does not read either, or see whether all is there that the file includes: ls -l "+path.Dir(file), "%s", err)}
	}
	return append(slurm.Conf{}, conf...), path.Dir(file), nil
}

// planned returns what setup's planner finds wrong with the files that setup changes, and with what they name.
func (s Site) planned() []Finding {
	site := setup.Site{Root: s.Root, Node: s.Node, SlurmConf: s.SlurmConf, State: s.State, Records: s.Records}
	site.Systemd = slurm.Exists(s.Root, "/run/systemd/system")
	if s.ConfigErr == nil && slices.Contains(s.Config.Slurm.Source, config.Scontrol) {
		site.Gres = s.Config.Slurm.Gres
	}
	var all []Finding
	if s.ConfigErr == nil && s.InventoryErr == nil && s.Drift == nil {
		if err := site.Count(s.Inventory, s.Config.Slurm); err != nil {
			all = append(all, failed("gres.conf", err))
		}
	}
	return append(all, setup.Make(site).Findings...)
}

// deadlines warns of programs that slurmd would kill before their own time is
// over. PrologTimeout and EpilogTimeout (25.05) come before the one for both.
func (s Site) deadlines(conf slurm.Conf) []Finding {
	if s.ConfigErr != nil {
		return nil
	}
	var all []Finding
	for _, d := range []struct {
		name string
		own  time.Duration
	}{{"Prolog", s.Config.Deadline.Prolog}, {"Epilog", s.Config.Deadline.Epilog}} {
		for _, key := range []string{d.name + "Timeout", "PrologEpilogTimeout"} {
			seconds, err := strconv.ParseUint(conf.Last(strings.ToLower(key)), 10, 16)
			if err != nil {
				continue // it is not set, or without limit
			}
			if slurms := time.Duration(seconds) * time.Second; slurms < d.own+poll.Telling {
				do := fmt.Sprintf("GN128 raise it, or lower deadline.%s in gresnet.toml", strings.ToLower(d.name))
				all = append(all, warn("slurm.conf", do, "%s is %s: slurmd kills the %s, which may take %s, and %s to tell of it", key, slurms, strings.ToLower(d.name), d.own, poll.Telling))
			}
			break
		}
	}
	return all
}

// accounts warns of policies by account where Slurm lets users name any. What enforces
// associations is that or implies it (slurm.conf(5), AccountingStorageEnforce).
func (s Site) accounts(conf slurm.Conf) []Finding {
	byAccount := func(p config.Policy) bool { return len(p.Account) > 0 }
	if s.ConfigErr != nil || !slices.ContainsFunc(s.Config.Policies, byAccount) {
		return nil
	}
	for _, value := range strings.Split(strings.ToLower(conf.Last("accountingstorageenforce")), ",") {
		switch value {
		case "associations", "limits", "qos", "safe", "wckeys", "all", "1":
			return nil
		}
	}
	return []Finding{warn("slurm.conf", "GN129 set AccountingStorageEnforce=associations", "without AccountingStorageEnforce users can name any account, and policies depend on it")}
}
