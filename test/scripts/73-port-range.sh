#!/bin/bash
# A program reads from which ports the kernel chooses.
#SBATCH --job-name=port-range
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label sysctl net.ipv4.ip_local_port_range
