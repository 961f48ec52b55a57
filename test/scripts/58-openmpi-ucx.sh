#!/bin/bash
# Open MPI takes UCX, which may take any interface; the nodes' HCAs are on different rails.
#SBATCH --job-name=openmpi-ucx
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any UCX_TLS=tcp,self

srun --mpi=pmix /opt/apps/hello.openmpi
