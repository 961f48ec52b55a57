#!/bin/bash
# on the login node, where the job is: a user mounts images of data there, and the job's steps read them
mkdir /tmp/early /tmp/late
mksquashfs ~/apps /tmp/data.img -quiet -no-progress >/dev/null
squashfuse /tmp/data.img /tmp/early
# shellcheck disable=SC2016 # the job expands it
job=$(sbatch --parsable --gres=nic:1 -w node1 -o /dev/null --wrap 'touch "mounted.$SLURM_JOB_ID"; srun --overlap sleep infinity')
until [ -e "mounted.$job" ]; do sleep 0.3; done
srun --overlap --jobid="$job" cat /tmp/early/motd
squashfuse /tmp/data.img /tmp/late
srun --overlap --jobid="$job" cat /tmp/late/motd
fusermount3 -u /tmp/late
srun --overlap --jobid="$job" ls -A /tmp/late | wc -l
scancel "$job"
fusermount3 -u /tmp/early && echo unmounted
