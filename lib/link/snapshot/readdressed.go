package snapshot

import (
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/link/address"
	"gresnet/lib/link/route"
)

// Readdressed returns the settings for the interface of a VF that has another address: the IPv6
// link-local address that follows from the old one, and the routes to it, follow from the new one.
func (want Settings) Readdressed(a sriov.Address) Settings {
	had, has := sriov.LinkLocal(want.MAC, ""), sriov.LinkLocal(want.MAC, a.Port)
	if a.MAC != "" {
		has = sriov.LinkLocal(a.MAC, "")
		want.MAC = a.MAC
	}
	if !had.IsValid() || !has.IsValid() {
		return want
	}
	var addresses []address.Address
	for _, m := range want.Addresses {
		addresses = append(addresses, m.Replace(had, has))
	}
	var routes []route.Route
	for _, m := range want.Routes {
		routes = append(routes, m.Replace(had, has))
	}
	want.Addresses, want.Routes = addresses, routes
	return want
}
