#!/bin/bash
# ZeroMQ binds to an interface by its name.
#SBATCH --job-name=zmq-interface
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export SINK=${nodes[0]}
srun --kill-on-bad-exit python3 ~/apps/zmq-sink.py
