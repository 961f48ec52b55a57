#!/bin/bash
# Open MPI over both components of a heterogeneous job.
#SBATCH --job-name=hetjob-openmpi
#SBATCH --nodes=1 --ntasks=1 --nodelist=node1
#SBATCH --gres=nic:1
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks=2 --nodelist=node2
#SBATCH --gres=nic:1

srun --mpi=pmix --het-group=0,1 /opt/apps/hello.openmpi
