#!/bin/bash
# An MPI program in Python.
#SBATCH --job-name=mpi4py
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --mpi=pmix python3 -c '
from mpi4py import MPI
world = MPI.COMM_WORLD
print(world.rank, world.allgather(MPI.Get_processor_name()))'
