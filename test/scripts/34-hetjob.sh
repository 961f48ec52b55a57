#!/bin/bash
# A step over both components of a heterogeneous job.
#SBATCH --job-name=hetjob
#SBATCH --nodes=1 --ntasks=1
#SBATCH --gres=nic:1
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks=2
#SBATCH --gres=nic:1

srun --label --het-group=0,1 hostname
