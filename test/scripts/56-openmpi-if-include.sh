#!/bin/bash
# Open MPI is told the interface by its name.
#SBATCH --job-name=openmpi-if-include
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0

srun --mpi=pmix /opt/apps/hello.openmpi
