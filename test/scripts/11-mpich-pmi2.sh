#!/bin/bash
# MPICH, started by srun.
#SBATCH --job-name=mpich
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

srun --mpi=pmi2 /opt/apps/hello.mpich
