#!/bin/bash
# mpirun and its ranks are told the interface by its name.
#SBATCH --job-name=mpirun-if-include
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

mpirun --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 --mca pml ob1 --mca btl tcp,self /opt/apps/hello.openmpi
