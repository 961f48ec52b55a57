package setup

// The names that come last of a prolog.d and first of an epilog.d, and what is in these files: as
// in conf/.
const (
	prologD = "00-gresnet"
	epilogD = "zz-gresnet"

	prologScript = `#!/bin/sh
# For Prolog=/etc/slurm/prolog.d/*: Slurm runs what the pattern matches from Z to A
# and from 9 to 0, so this comes last. Where the site's own scripts fail there
# is no lease, and what they look for is still on the node.
exec /usr/sbin/gresnet-prolog
`
	epilogScript = `#!/bin/sh
# For Epilog=/etc/slurm/epilog.d/*: Slurm runs what the pattern matches from Z to A
# and from 9 to 0, so this comes first, and the site's own scripts find the node
# as it was. After a script that fails Slurm runs no other.
exec /usr/sbin/gresnet-epilog
`
)
