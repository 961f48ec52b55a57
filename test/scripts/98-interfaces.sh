#!/bin/bash
# A program lists the interfaces that are up and their addresses, without HCAs.
#SBATCH --job-name=interfaces
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

# shellcheck disable=SC2016 # the tasks expand it
srun --label bash -c 'hostname -I | cut -d " " -f 1; ip -4 -br addr show dev eth0 | awk "{print \$1, \$3}"; ip -o link show eth0 | cut -d : -f 1'
