#!/bin/bash
# curl is told the node's interface by its name, and calls a web server beside the cluster.
#SBATCH --job-name=bound-outward
#SBATCH --nodes=1
#SBATCH --nodelist=node2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun curl -sS --interface eth0 --max-time 30 http://www.example.com/motd
