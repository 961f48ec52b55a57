#!/bin/bash
# Open MPI, started by mpirun over ssh.
#SBATCH --job-name=mpirun-ssh
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=2/' >"hostfile.$SLURM_JOB_ID"

mpirun --mca ras ^slurm --mca plm rsh --hostfile "hostfile.$SLURM_JOB_ID" -np 4 /opt/apps/hello.openmpi
