#!/bin/bash
# Open MPI is told the interface by its network.
#SBATCH --job-name=openmpi-if-cidr
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=192.0.2.0/24

srun --mpi=pmix /opt/apps/hello.openmpi
