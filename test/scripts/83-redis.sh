#!/bin/bash
# Redis on the first node, and the other tasks increment a key there.
#SBATCH --job-name=redis
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[0]}" redis-server --port 6379 --protected-mode no --save "" >/dev/null &
srun --overlap --label bash -c "until redis-cli -h ${nodes[0]} ping >/dev/null 2>&1; do sleep 1; done; redis-cli -h ${nodes[0]} incr key >/dev/null; until [ \$(redis-cli -h ${nodes[0]} get key) = 2 ]; do sleep 1; done; echo all are there"
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[0]}" redis-cli shutdown nosave
wait
