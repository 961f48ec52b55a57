#!/bin/bash
# 60-gresnet.sh is a hook for enroot: it belongs into hooks.d of enroot's system
# configuration (/etc/enroot/hooks.d), executable. A container that is started in
# a step of a job with HCAs then has the job's variables, whatever its image says,
# and the job's devices, where enroot gives containers a /dev of their own.
#
# It runs as the job's user, who can replace it: it is for comfort. What confines
# the container is what it inherits from the step.
set -euo pipefail

# Set by gresnet's SPANK plugin in tasks that have entered, and nowhere else.
[ -n "${GRESNET_JOB-}" ] || exit 0

# export_variable appends a variable of the task to those of the container; of
# two lines for one name the last counts, and the image's come before hooks'.
export_variable() {
	local name=$1
	[[ $name =~ ^[A-Z][A-Z0-9_]*$ ]] || return 0
	# in a file of lines, a value of two lines would be another variable
	[[ -v $name && ${!name} != *$'\n'* ]] || return 0
	printf '%s=%s\n' "$name" "${!name}" >>"$ENROOT_ENVIRON"
}

IFS=, read -r -a others <<<"${GRESNET_VARIABLES-}"
for name in "${!GRESNET_@}" "${others[@]}"; do
	export_variable "$name"
done

# Otherwise the container's /dev is the task's, and has them.
if [ -n "${ENROOT_RESTRICT_DEV-}${ENROOT_UNSHARE_IPC-}" ] && [ -d /dev/infiniband ]; then
	echo "/dev/infiniband /dev/infiniband none x-create=dir,rbind,rw,nosuid,noexec,private" >>"$ENROOT_MOUNTS"
fi
