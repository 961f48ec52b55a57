package setup

// The names that come last of a prolog.d and first of an epilog.d, and what is in these files: as
// in conf/.
const (
	prologD = "00-gresnet"
	epilogD = "zz-gresnet"

	prologScript = `#!/bin/sh
# For Prolog= of slurm.conf, the same file on all hosts: without gresnet there is nothing to do. A node that
# is set up (it has /etc/gresnet/plugstack.conf) and lost the program must not run the job.
# In a folder of several scripts, Prolog=/etc/slurm/prolog.d/*, Slurm runs names from Z to A and from 9 to 0,
# so this one comes last. Where the site's own scripts fail there is no lease, and what they look for is
# still on the node.
[ -e /usr/sbin/gresnet-prolog ] || [ -e /etc/gresnet/plugstack.conf ] || exit 0
exec /usr/sbin/gresnet-prolog
`
	epilogScript = `#!/bin/sh
# For Epilog= of slurm.conf, the same file on all hosts: without gresnet there is nothing to do. A node that
# is set up (it has /etc/gresnet/plugstack.conf) and lost the program needs a person.
# In a folder of several scripts, Epilog=/etc/slurm/epilog.d/*, Slurm runs names from Z to A and from 9 to 0,
# so this one comes first, and the site's own scripts find the node as it was. After a script that fails
# Slurm runs no other.
[ -e /usr/sbin/gresnet-epilog ] || [ -e /etc/gresnet/plugstack.conf ] || exit 0
exec /usr/sbin/gresnet-epilog
`
)
