#!/bin/bash
# ping is told the interface to the other node, and programs the address by which they call.
#SBATCH --job-name=bound-to-interface
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

# shellcheck disable=SC2016 # the tasks expand it
srun --label bash -c '
own=$(hostname -I | cut -d " " -f 1)
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
	for by in eth0 "$own"; do
		ping -q -c 1 -w 20 -I "$by" "$node" >/dev/null && echo "$by to $node: there"
	done
done
curl -sS --interface "$own" --max-time 30 http://www.example.com/motd'
