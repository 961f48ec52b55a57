#!/bin/bash
# script gives srun the terminal that a person has
script --quiet --return --command "srun --gres=nic:1 --pty bash -c 'tty -s && echo a terminal on \$(hostname)'" /dev/null
