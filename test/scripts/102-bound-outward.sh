#!/bin/bash
# curl is told the node's interface by its name, and calls a web server beside the cluster.
#SBATCH --job-name=bound-outward
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label curl -sS --interface eth0 --max-time 30 http://www.example.com/motd
