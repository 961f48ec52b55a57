package part

import (
	"errors"
	"fmt"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/source"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
)

// partition is a slot of an InfiniBand HCA, with an interface for a partition; in exclusive mode the only
// slot is the whole HCA, with that interface besides its own.
type partition struct{ Whole }

// below returns what the HCA itself is, if the job has the whole of it: it may be a VF.
func (partition) below(e gres.Entry) Kind {
	if e.Slot == nil {
		return Of(e.HCA.ID.Kind())
	}
	return Whole{}
}

// Decide returns the entry with the job's P_Key. It refuses a job that is given none.
func (p partition) Decide(c config.Config, j job.Job, e gres.Entry) (gres.Entry, error) {
	e, err := p.below(e).Decide(c, j, e)
	if err != nil {
		return e, err
	}
	k := source.PKey(c, j, e.PKey)
	if k == 0 {
		err := fmt.Errorf("no [[policy]] that fits job %d says which P_Key it has on %s", j.ID, e.HCA.Name)
		return e, refuse("pkey", hint.With(err, "GN354 write pkey into [[hca]] for all jobs, or into a last [[policy]] without conditions"))
	}
	e.PKey, e.Decided = k, k != e.PKey
	return e, nil
}

// Read reads where the ports have the job's P_Key, and which interfaces the job has for the partition.
func (p partition) Read(r *Reading) (err error) {
	if r.Entry.Slot != nil {
		err = inSharedMode(r)
	} else {
		err = p.below(r.Entry).Read(r)
	}
	if err != nil {
		return err
	}
	r.HCA.PKeys, err = readPKeys(r.View, r.Device, r.Entry, r.HCA.Ports)
	if errors.As(err, new(noPKey)) && r.Entry.Decided {
		return refuse("pkey", err)
	}
	if err != nil || r.Stays {
		return err
	}
	return readChildren(r, func(p scan.Port) (*step.Child, error) {
		if err := canJoin(*p.Interface, p.LinkLayer); err != nil {
			return nil, err
		}
		return readChild(r, p, virtual.IPoIB)
	})
}

// noPKey means that a port is not in the partition that a job's slot is for.
type noPKey struct{ error }

func (e noPKey) Unwrap() error { return e.error }

// readPKeys returns where the InfiniBand ports of an HCA have the P_Key of a slot; nil if it has none.
// A port without a link may lack it, because the subnet manager never saw the port.
func readPKeys(v *scan.View, d scan.Device, e gres.Entry, ports []scan.Port) (all map[uint32]node.PKeyEntry, err error) {
	if e.PKey == 0 {
		return nil, nil
	}
	all = map[uint32]node.PKeyEntry{}
	var lacks error
	for _, p := range ports {
		if p.LinkLayer != node.InfiniBand {
			continue
		}
		table, err := v.PKeys(d, p.Num)
		if err != nil {
			return nil, err
		}
		found, is := node.FindPKey(table, e.PKey)
		switch {
		case is:
			all[p.Num] = found
		case p.State == "ACTIVE":
			return nil, lacksPKey(d.Name, p, table, e.PKey)
		default:
			lacks = lacksPKey(d.Name, p, table, e.PKey)
		}
	}
	if len(all) == 0 {
		return nil, lacks
	}
	return all, nil
}

func lacksPKey(hca string, p scan.Port, table []node.PKey, want node.PKey) error {
	var has []string
	for _, k := range table {
		if k != 0 {
			has = append(has, k.String())
		}
	}
	err := fmt.Errorf("%s port %d has no P_Key %s; it has %s", hca, p.Num, want, strings.Join(has, ", "))
	return noPKey{hint.With(err, "GN355 have the subnet manager make the port a member of the partition, or correct pkey in gresnet.toml")}
}

// canJoin returns an error for an interface on which the kernel makes none for a partition, or on
// which such a one reaches nothing.
func canJoin(parent link.Interface, layer string) error {
	switch {
	case layer != node.InfiniBand:
		return hint.With(fmt.Errorf("%s is on Ethernet, which has no P_Keys", parent.Name), `GN356 take part = "macvlan", or part = "vf" with a vlan`)
	case !parent.Up:
		err := fmt.Errorf("%s is down, and so would its interface for a P_Key be", parent.Name)
		return hint.With(err, "GN359 ip link set "+parent.Name+" up, before the first job")
	}
	return nil
}

// Problems returns what is wrong with the HCAs that are for partitions, less what a prolog refuses to any
// job.
func (partition) Problems(c config.Config, have report.Scan) (all []error) {
	for _, h := range have.HCAs {
		if !node.KindNamed(h.Part).Has("pkey") || h.ID.IsSlot() && h.ID.Slot != "0" {
			continue // what holds for the first slot holds for the others
		}
		for _, port := range h.Ports {
			for i, p := range c.Policies {
				if _, is := node.FindPKey(port.PKeys, p.PKey); p.PKey == 0 || is || port.State != "ACTIVE" {
					continue
				}
				err := fmt.Errorf("policy %d gives jobs P_Key %s, which %s port %d does not have: they are refused", i+1, p.PKey, h.Name, port.Num)
				all = append(all, hint.With(err, "GN357 have the subnet manager make the port a member of the partition, or correct pkey in [[policy]]"))
			}
		}
	}
	if err := labels(have); err != nil {
		all = append(all, err)
	}
	return all
}

// labels returns what keeps SELinux from deciding who may use which P_Key. The kernel does not say
// which P_Keys have labels.
func labels(have report.Scan) error {
	why := "SELinux is not enforcing"
	switch {
	case have.SELinux.Enforcing && have.SELinux.PKeys:
		return nil
	case have.SELinux.Enforcing:
		why = "the SELinux policy does not have the class infiniband_pkey"
	}
	err := fmt.Errorf("nothing keeps a job from using the other P_Keys of its port by raw verbs: %s", why)
	return meant{hint.With(err, "GN358 that may be meant so; else see security.md, P_Keys")}
}
