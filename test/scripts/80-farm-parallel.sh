#!/bin/bash
# A job farm with GNU parallel.
#SBATCH --job-name=farm-parallel
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=4

parallel --will-cite -j 4 srun --exact --nodes=1 --ntasks=1 --gres=none echo piece ::: 1 2 3 4 5 6
