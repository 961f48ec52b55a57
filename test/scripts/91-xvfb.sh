#!/bin/bash
# A step has a display of its own, without a screen.
#SBATCH --job-name=xvfb
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --ntasks=1 xvfb-run --auto-servernum --server-args='-screen 0 640x480x24' xdpyinfo >"xvfb.$SLURM_JOB_ID" && grep dimensions: "xvfb.$SLURM_JOB_ID"
