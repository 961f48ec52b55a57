#!/bin/bash
# Open MPI by TCP alone.
#SBATCH --job-name=openmpi-tcp
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

export OMPI_MCA_pml=ob1
export OMPI_MCA_btl=tcp,self

srun --mpi=pmix /opt/apps/hello.openmpi
