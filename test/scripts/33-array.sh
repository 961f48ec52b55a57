#!/bin/bash
# A job array.
#SBATCH --job-name=array
#SBATCH --array=1-3
#SBATCH --ntasks=1
#SBATCH --gres=nic:1

srun echo "element $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"
