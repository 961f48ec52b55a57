#!/bin/bash
# A program looks its own host's full name up.
#SBATCH --job-name=getfqdn
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit python3 ~/apps/peers.py fqdn
