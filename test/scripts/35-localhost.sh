#!/bin/bash
# A server on localhost, and its clients on the same node.
#SBATCH --job-name=localhost
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=3

export PS_HOST=localhost
export PS_PORT=2222

srun --kill-on-bad-exit python3 ~/apps/parameter-server.py
