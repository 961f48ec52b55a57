#!/bin/bash
# The server is in the batch script, and the tasks call SLURM_LAUNCH_NODE_IPADDR.
#SBATCH --job-name=launch-node-ipaddr
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

cd ~/apps && python3 -m http.server 8000 >/dev/null 2>&1 &
# shellcheck disable=SC2016 # the tasks expand it
srun --label bash -c 'curl -sS --retry 30 --retry-delay 1 --retry-connrefused "http://$SLURM_LAUNCH_NODE_IPADDR:8000/motd"'
kill $!
