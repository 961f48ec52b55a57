#!/bin/bash
# A user makes sandboxes without root, as bwrap and apptainer make them.
#SBATCH --job-name=user-namespaces
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=1

srun bash ~/apps/sandboxes
bash ~/apps/sandboxes | sed 's/^/the batch script: /'
