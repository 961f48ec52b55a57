#!/bin/bash
# ping finds out how long a packet may be on the way to the other node.
#SBATCH --job-name=ping-df
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --nodes=1 --ntasks=1 -w "${nodes[0]}" ping -q -M "do" -s 1472 -c 2 -w 20 "${nodes[1]}" | grep -E 'packets transmitted' | sed 's/, time.*//'
