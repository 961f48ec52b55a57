#!/bin/bash
# A program reads how long packets of the node's interface may be.
#SBATCH --job-name=mtu
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label cat /sys/class/net/eth0/mtu
