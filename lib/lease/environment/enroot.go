package environment

import (
	"os"
	"slices"

	"gresnet/lib/words/config"
)

// mellanoxHook is enroot's, as its packages install it. It chooses HCAs by their place in lists of
// /sys, and keeps a container from starting where those lists do not match.
const mellanoxHook = "/etc/enroot/hooks.d/99-mellanox.sh"

// WithoutHook adds to the variables that a site exports the one that switches the hook off, if the
// hook is on: enroot runs it if it is executable.
func WithoutHook(export []string, hook string) []string {
	info, err := os.Stat(hook)
	if err != nil || info.Mode()&0o111 == 0 || slices.Contains(export, config.MellanoxNone) {
		return export
	}
	return append(slices.Clone(export), config.MellanoxNone)
}
