#!/bin/bash
# rsync copies to the other node's disk, by ssh.
#SBATCH --job-name=rsync
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# shellcheck disable=SC2029 # the same on both sides
rsync -r ~/apps/ "${nodes[1]}:/tmp/apps.$SLURM_JOB_ID" && ssh "${nodes[1]}" cat "/tmp/apps.$SLURM_JOB_ID/motd"
