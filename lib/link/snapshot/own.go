package snapshot

import (
	"gresnet/lib/base/hint"
	"gresnet/lib/link"
	"gresnet/lib/link/sysctl"
)

// applyIPoIB looks again if it has changed anything: the kernel gives the interface another MTU then.
func applyIPoIB(c *Conn, g *giving) error {
	changes := c.Changes()
	err := c.SetIPoIB(g.i.Interface, g.want.Own)
	if c.Changes() == changes {
		return err
	}
	now, lookErr := c.Look(g.i.Index)
	if lookErr == nil {
		g.i = now
	}
	return hint.Join(err, lookErr)
}

// settableMAC is empty for a MAC of IPoIB, which cannot be set.
func settableMAC(mac string) string {
	if link.IsIPoIB(mac) {
		return ""
	}
	return mac
}

func differAttributes(_ *Conn, o comparing) (diff []string, err error) {
	for _, name := range link.Differing(o.have.Attributes, o.want.Attributes) {
		diff = append(diff, name+" is not what it was")
	}
	return diff, nil
}

func readSysctls(_ *Conn, r *reading) (err error) {
	r.s.Sysctls, err = sysctl.Read(forSysctls(r.i))
	return err
}

func differSysctls(_ *Conn, o comparing) (diff []string, err error) {
	for _, key := range o.want.Sysctls.Differing(o.have.Sysctls) {
		diff = append(diff, differ("sysctl "+key, o.have.Sysctls[key], o.want.Sysctls[key])...)
	}
	return diff, nil
}

// forSysctls returns an interface as package sysctl has it.
func forSysctls(i link.Described) sysctl.Interface {
	return sysctl.Interface{MTU: i.MTU, Name: i.Name, Described: i.List}
}
