#!/bin/bash
# A job that asks for an HCA sees one.
srun --gres=nic:1 bash -c 'ls /sys/class/infiniband | grep -q . && echo there is an HCA'
