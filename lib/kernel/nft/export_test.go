package nft

// The tests ask one firewall alone.
var (
	Dropping       = dropping
	DroppingLegacy = droppingLegacy
)
