#!/bin/bash
# The server's address is that of the default route's interface.
#SBATCH --job-name=default-interface
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
cat >"address.$SLURM_JOB_ID" <<'A'
ip -4 -o addr show dev "$(ip route show default | grep -oP '(?<=dev )\S+' | head -1)" | grep -oP '(?<=inet )[0-9.]+' | head -1
A
MASTER_ADDR=$(srun --nodes=1 --ntasks=1 -w "${nodes[1]}" bash "address.$SLURM_JOB_ID")
export MASTER_ADDR
echo "the server is at $MASTER_ADDR"

export MASTER_PORT=29500
# rank 0, the server, is on the last node
echo "${nodes[1]}" >"hosts.$SLURM_JOB_ID"
echo "${nodes[0]}" >>"hosts.$SLURM_JOB_ID"
export SLURM_HOSTFILE=$PWD/hosts.$SLURM_JOB_ID
srun --kill-on-bad-exit --distribution=arbitrary python3 ~/apps/store.py
