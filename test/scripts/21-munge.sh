#!/bin/bash
# A task gets a credential of munge.
#SBATCH --job-name=munge
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label bash -c 'munge -n | unmunge | grep -E "^(STATUS|UID)"'
