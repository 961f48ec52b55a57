#!/bin/bash
# MPICH's mpiexec in the batch script, which is told the interface.
#SBATCH --job-name=mpiexec-hydra
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mpiexec.hydra -iface eth0 /opt/apps/hello.mpich
