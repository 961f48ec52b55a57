#!/bin/bash
# A step mounts an image of data, and the next step reads it.
#SBATCH --job-name=fuse-step
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

data=/tmp/data.$SLURM_JOB_ID
mksquashfs ~/apps "$data.img" -quiet -no-progress >/dev/null && mkdir "$data"
srun --overlap bash -c "squashfuse -f $data.img $data & until [ -e $data/motd ]; do sleep 0.2; done; touch $data.there; wait" &
until [ -e "$data.there" ]; do sleep 0.5; done
srun --overlap bash -c "cat $data/motd && echo read by the next step"
status=$?
srun --overlap fusermount3 -u "$data"
wait
exit $status
