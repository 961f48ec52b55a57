package host

import (
	"fmt"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/job"
	"gresnet/lib/pkey"
	"gresnet/lib/scan"
	"gresnet/lib/source"
)

// InfiniBand is a port's link layer, as sysfs writes it.
const InfiniBand = "InfiniBand"

// noPKey means that a port is not in the partition that a job's slot is for.
type noPKey struct{ error }

func (e noPKey) Unwrap() error { return e.error }

// choosePKey decides the P_Key of an entry for a job. The refusal is of a job that nobody gives one.
func (n *Host) choosePKey(j job.Job, e gres.Entry) (pkey.PKey, error) {
	if e.Part != config.PartPKey {
		return 0, nil
	}
	k := source.PKey(n.Config, j, e.PKey)
	if k == 0 {
		err := fmt.Errorf("no [[policy]] that fits job %d says which P_Key it has on %s", j.ID, e.HCA.Name)
		return 0, refuse("pkey", hint.With(err, "GN354 write pkey into [[hca]] for all jobs, or into a last [[policy]] without conditions"))
	}
	return k, nil
}

// readPKeys returns where the InfiniBand ports of an HCA have the P_Key of a slot; nil if it has none.
// A port without a link may lack it, because the subnet manager never saw the port.
func readPKeys(v *scan.View, d scan.Device, e gres.Entry, ports []scan.Port) (all map[uint32]pkey.Entry, err error) {
	if e.PKey == 0 {
		return nil, nil
	}
	all = map[uint32]pkey.Entry{}
	var lacks error
	for _, p := range ports {
		if p.LinkLayer != InfiniBand {
			continue
		}
		table, err := v.PKeys(d, p.Num)
		if err != nil {
			return nil, err
		}
		found, is := pkey.Find(table, e.PKey)
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

func lacksPKey(hca string, p scan.Port, table []pkey.PKey, want pkey.PKey) error {
	var has []string
	for _, k := range table {
		if k != 0 {
			has = append(has, k.String())
		}
	}
	err := fmt.Errorf("%s port %d has no P_Key %s; it has %s", hca, p.Num, want, strings.Join(has, ", "))
	return noPKey{hint.With(err, "GN355 have the subnet manager make the port a member of the partition, or correct pkey in gresnet.toml")}
}
