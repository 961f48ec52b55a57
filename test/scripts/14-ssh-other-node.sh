#!/bin/bash
# A step calls the job's other node by ssh.
#SBATCH --job-name=ssh-other-node
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")

srun --nodes=1 --ntasks=1 -w "${nodes[0]}" ssh "${nodes[1]}" hostname
