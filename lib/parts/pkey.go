package parts

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/hint"
	"gresnet/lib/pkey"
	"gresnet/lib/report"
)

// partitions are what is wrong with the HCAs that the site gives for partitions, less what a prolog
// refuses to any job.
func partitions(c config.Config, node report.Scan) (all []error) {
	if !slices.ContainsFunc(c.HCAs, func(h config.HCA) bool { return h.Part == config.PartPKey }) {
		return nil
	}
	for _, h := range node.HCAs {
		if h.Part != config.PartPKey || h.ID.Slot != "" && h.ID.Slot != "0" {
			continue // what holds for the first slot holds for the others
		}
		for _, port := range h.Ports {
			for i, p := range c.Policies {
				if _, is := pkey.Find(port.PKeys, p.PKey); p.PKey == 0 || is || port.State != "ACTIVE" {
					continue
				}
				err := fmt.Errorf("policy %d gives jobs P_Key %s, which %s port %d does not have: they are refused", i+1, p.PKey, h.Name, port.Num)
				all = append(all, hint.With(err, "GN357 have the subnet manager make the port a member of the partition, or correct pkey in [[policy]]"))
			}
		}
	}
	if err := labels(node); err != nil {
		all = append(all, err)
	}
	return all
}

// labels returns what keeps SELinux from deciding who may use which P_Key. The kernel does not say
// which P_Keys have labels.
func labels(node report.Scan) error {
	why := "SELinux is not enforcing"
	switch {
	case node.SELinux.Enforcing && node.SELinux.PKeys:
		return nil
	case node.SELinux.Enforcing:
		why = "the SELinux policy does not have the class infiniband_pkey"
	}
	err := fmt.Errorf("nothing keeps a job from using the other P_Keys of its port by raw verbs: %s", why)
	return meant{hint.With(err, "GN358 that may be meant so; else see security.md, P_Keys")}
}

// meant is what may be meant so.
type meant struct{ error }

func (m meant) Unwrap() error { return m.error }

// MayBeMeant tells what a site may want so.
func MayBeMeant(err error) bool {
	var m meant
	return errors.As(err, &m)
}
