#!/bin/bash
srun --gres=nic:1 bash -c 'ls /sys/class/infiniband | grep -q . && echo there is an HCA'
