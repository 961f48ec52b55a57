#!/bin/bash
# mpirun is told the nodes by their names.
#SBATCH --job-name=mpirun-host
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
mpirun --host "${nodes[0]}:1,${nodes[1]}:1" -np 2 /opt/apps/hello.openmpi
