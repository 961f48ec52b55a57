#!/bin/bash
# xvfb-run gives srun the display that a person has
xvfb-run --auto-servernum --server-args='-screen 0 640x480x24' srun --gres=nic:1 --x11 xdpyinfo >xdpyinfo.out || exit
grep dimensions: xdpyinfo.out
