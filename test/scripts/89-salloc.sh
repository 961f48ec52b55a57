#!/bin/bash
# on the login node: an allocation, and a step on both nodes
salloc --quiet --nodes=2 --ntasks-per-node=1 --gres=nic:1 srun --label hostname
