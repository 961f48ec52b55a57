#!/bin/bash
# Open MPI, started by mpirun in the batch script.
#SBATCH --job-name=mpirun
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

mpirun /opt/apps/hello.openmpi
