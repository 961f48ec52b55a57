#!/bin/bash
# Open MPI, started by srun.
#SBATCH --job-name=openmpi-pmix
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

srun --mpi=pmix /opt/apps/hello.openmpi
