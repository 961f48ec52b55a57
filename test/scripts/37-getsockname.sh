#!/bin/bash
# A program finds its address as Ray and Dask do: connect() of a UDP socket and getsockname().
#SBATCH --job-name=getsockname
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit python3 ~/apps/peers.py route
