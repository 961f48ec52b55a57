#!/bin/bash
# A step of the batch script's node shows a window on a display that the batch script has made.
#SBATCH --job-name=x11-inside
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

xvfb-run --auto-servernum --server-args='-screen 0 640x480x24' srun --ntasks=1 xdpyinfo >"x11.$SLURM_JOB_ID" && grep dimensions: "x11.$SLURM_JOB_ID"
