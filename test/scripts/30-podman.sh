#!/bin/bash
# A container by podman, in the job's network.
#SBATCH --job-name=podman
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=1

srun bash -e <<'STEP'
podman import /opt/apps/busybox.tar busybox >/dev/null
podman run --rm --network=host busybox /bin/sh -c 'echo in a container'
STEP
