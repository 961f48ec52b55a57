#!/bin/bash
# One step has several programs.
#SBATCH --job-name=multi-prog
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks=3

cat >"multi.$SLURM_JOB_ID" <<'M'
0    echo master %t
1-2  echo worker %t with offset %o
M
srun --multi-prog "multi.$SLURM_JOB_ID"
