#!/bin/bash
# on the login node: a step reads what is piped into srun
echo from the login node | srun --gres=nic:1 --ntasks=1 tr a-z A-Z
