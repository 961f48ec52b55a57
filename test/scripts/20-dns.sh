#!/bin/bash
# Tasks look up a name of the world.
#SBATCH --job-name=dns
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label getent hosts www.example.com
