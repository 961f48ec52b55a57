#!/bin/bash
# A job farm: eight steps, with room for four at once.
#SBATCH --job-name=farm
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=4

for piece in 1 2 3 4 5 6 7 8; do
	srun --exact --nodes=1 --ntasks=1 --gres=none bash -c "sleep 2; echo piece $piece" &
done
wait
