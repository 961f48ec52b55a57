#!/bin/bash
# Open MPI takes UCX, which is told the interface.
#SBATCH --job-name=openmpi-ucx-eth0
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any UCX_TLS=tcp,self UCX_NET_DEVICES=eth0

srun --mpi=pmix /opt/apps/hello.openmpi
