#!/bin/bash
# A task looks at what the kernel lets it do, and at what namespaces it has in common with the job's others.
#SBATCH --job-name=process
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=1

srun bash ~/apps/process
bash ~/apps/process | sed 's/^/the batch script: /'
for step in 1 2; do
	srun bash -c 'readlink /proc/self/ns/*' >"namespaces.$SLURM_JOB_ID.$step"
done
readlink /proc/self/ns/* >"namespaces.$SLURM_JOB_ID.batch"
for other in 2 batch; do
	cmp "namespaces.$SLURM_JOB_ID".{1,$other} && echo the same namespaces
done
