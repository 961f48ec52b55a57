package snapshot

import (
	"fmt"
	"slices"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/inet"
)

// applyDuplicates gives the interface the addresses that another on its network had, too,
// when the settings were read. The kernel did not use them and is not to now, untested: it
// tests them again, as everything else is given by now and the interface's own
// accept_dad holds. No run waits for that.
func applyDuplicates(c *Conn, g *giving) error {
	if len(g.want.Duplicates) == 0 {
		return nil
	}
	want := g.want.aged()
	have, duplicates, _, err := inet.ReadAddresses(c.Route, g.i.Index)
	if err != nil {
		return fmt.Errorf("read the addresses of %s: %w", want.Name, err)
	}
	for _, m := range inet.AddressesInOrder(netlink.Missing(want.Duplicates, append(have, duplicates...), inet.Address.Key)) {
		if err := inet.GiveAddress(c.Route, g.i.Index, m, want.Name); err != nil {
			return err
		}
	}
	return nil
}

// duplicatesIn returns the duplicates that are in a list.
func (want Settings) duplicatesIn(list []inet.Address) []inet.Address {
	return slices.DeleteFunc(slices.Clone(list), func(m inet.Address) bool {
		return len(netlink.Missing([]inet.Address{m}, want.Duplicates, inet.Address.Key)) > 0
	})
}

// addressDifferences names what of addresses is not as it was. One that another had, too,
// may be tested still, or be its own now: either is as it would be had it not been away.
func addressDifferences(have, want Settings) []string {
	name := func(m inet.Address) string { return m.Addr().String() }
	all := func(s Settings) []inet.Address { return slices.Concat(s.Addresses, s.Duplicates) }
	diff := netlink.Differences("address", all(have), all(want), inet.Address.Key, name)
	for _, m := range netlink.Missing(have.Duplicates, want.Duplicates, inet.Address.Key) {
		if len(netlink.Missing([]inet.Address{m}, want.Addresses, inet.Address.Key)) == 0 {
			diff = append(diff, fmt.Sprintf("address %s is another's, too (dadfailed), was not", name(m)))
		}
	}
	return diff
}
