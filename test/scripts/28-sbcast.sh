#!/bin/bash
# sbcast brings a file to each node.
#SBATCH --job-name=sbcast
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

sbcast ~/apps/motd "/tmp/motd.$SLURM_JOB_ID"
srun --label cat "/tmp/motd.$SLURM_JOB_ID"
