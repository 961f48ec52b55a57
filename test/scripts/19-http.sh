#!/bin/bash
# Tasks fetch a page from a web server beside the cluster.
#SBATCH --job-name=http
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun curl -sS --max-time 60 http://www.example.com/motd
