#!/bin/bash
# on the login node: salloc --x11, and windows of a step and of a step that it starts
cat >x11.sh <<'B'
#!/bin/bash
xdpyinfo | grep dimensions: || exit
srun --overlap xdpyinfo | grep dimensions:
B
xvfb-run --auto-servernum --server-args='-screen 0 640x480x24' bash -c 'salloc --quiet --x11 --gres=nic:1 -w node2 srun bash x11.sh'
