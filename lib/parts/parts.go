// Package parts says what keeps a PF from having, and doing for, the VFs that the site gives to
// jobs, and an HCA from having slots for the partitions that it gives. It is pure.
package parts

import (
	"fmt"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/hint"
	"gresnet/lib/rdma"
	"gresnet/lib/report"
	"gresnet/lib/sriov"
)

// Problems are what is wrong with the HCAs that the site gives in parts.
func Problems(c config.Config, node report.Scan) (all []error) {
	for _, h := range c.HCAs {
		if h.Part != config.PartVF {
			continue
		}
		i := slices.IndexFunc(node.HCAs, func(o report.HCA) bool { return h.Splits(o.ID) })
		if i < 0 {
			err := fmt.Errorf("%s, which has VFs by [[hca]], is no HCA of the node", h.Match.Value)
			all = append(all, hint.With(err, "GN327 correct match in [[hca]], or see whether the PF is plugged in and its driver loaded"))
			continue
		}
		all = append(all, ofPF(c, h, node.HCAs[i])...)
	}
	return append(all, partitions(c, node)...)
}

func ofPF(c config.Config, h config.HCA, pf report.HCA) (all []error) {
	var vfs report.VFs
	if pf.VFs != nil {
		vfs = *pf.VFs
	}
	if err := sriov.Fits(h.Match.Value, h.Count, vfs.Now, vfs.Total); err != nil {
		all = append(all, err)
	}
	if vfs.Switchdev {
		all = append(all, sriov.Switchdev(h.Match.Value))
	}
	if !slices.ContainsFunc(pf.Ports, func(p report.Port) bool { return p.State == "ACTIVE" }) {
		all = append(all, meant{hint.With(fmt.Errorf("no port of %s is active: its VFs have no link", pf.Name), "GN328 bring its interface up, and see whether its cable is in")})
	}
	infiniband := slices.ContainsFunc(pf.Ports, func(p report.Port) bool { return p.LinkLayer == "InfiniBand" })
	wanted := []config.VF{h.VF}
	for _, p := range c.Policies {
		wanted = append(wanted, p.VF)
	}
	for _, v := range wanted {
		if err := Takes(pf.Name, infiniband, pf.Driver, v); err != nil {
			return append(all, err)
		}
	}
	return all
}

// only802Dot1Q are the RDMA drivers of PFs that take no other VLANs for their VFs
// (bnxt_sriov.c:bnxt_set_vf_vlan, qede_main.c:qede_set_vf_vlan: EPROTONOSUPPORT).
var only802Dot1Q = []string{"bnxt_re", "qedr"}

// twoInterfaces is the RDMA driver whose VFs have an interface for each port (mlx4_en, main.c:mlx4_en_activate).
const twoInterfaces = "mlx4"

// Takes returns an error for what a PF is known not to do for its VFs. Of the rest its driver decides.
func Takes(pf string, infiniband bool, driver string, v config.VF) error {
	switch {
	case infiniband && v != config.VF{State: v.State, Address: v.Address}:
		return hint.With(
			fmt.Errorf("%s is InfiniBand: VLANs, rates, trust and spoof checks are Ethernet's", pf),
			"GN329 leave all but state and address out of vf in [[hca]] and [[policy]]; on InfiniBand the subnet manager has partitions and rates",
		)
	case v.VLAN != nil && v.VLAN.Proto == config.Proto8021AD && slices.Contains(only802Dot1Q, driver):
		return hint.With(fmt.Errorf("driver %s takes no VLANs of 802.1ad for the VFs of %s", driver, pf), "GN330 leave proto out of vf in [[hca]] and [[policy]]")
	case v.Address == config.AddressJob && rdma.EndsWithInterface(driver):
		return hint.With(fmt.Errorf("driver %s ends its RDMA device when the VF is bound again: %s stays as it is", driver, pf), "GN372 leave address out of vf in [[hca]] and [[policy]]")
	case v.Address == config.AddressJob && driver == twoInterfaces:
		return hint.With(fmt.Errorf("driver %s makes two interfaces for a VF, which only their MACs tell apart: %s stays as it is", driver, pf), "GN365 leave address out of vf in [[hca]] and [[policy]]")
	}
	return nil
}
