#!/bin/bash
# GNU parallel has its jobs on both nodes, by ssh.
#SBATCH --job-name=parallel-ssh
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

parallel --will-cite -j 1 --sshlogin node1,node2 --joblog /dev/null echo piece ::: 1 2 3 4
