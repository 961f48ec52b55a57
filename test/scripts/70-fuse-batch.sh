#!/bin/bash
# The batch script mounts an image of its data, and its steps read it.
#SBATCH --job-name=fuse-batch
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

data=/tmp/data.$SLURM_JOB_ID
mksquashfs ~/apps "$data.img" -quiet -no-progress >/dev/null && mkdir "$data" && squashfuse "$data.img" "$data"
srun cat "$data/motd"
status=$?
fusermount3 -u "$data"
exit $status
