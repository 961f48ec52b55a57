#!/bin/bash
# A program asks a service of the node on the loopback.
#SBATCH --job-name=node-loopback
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label curl -sS --max-time 20 http://127.0.0.1:9999/motd
