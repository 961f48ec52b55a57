#!/bin/bash
# on the login node: ssh -X into a running job's node, with a display as a person has it
job=$(sbatch --parsable -w node2 ~/apps/server.sbatch 8000)
until [ -e "server.$job" ]; do sleep 1; done

xvfb-run --auto-servernum --server-args='-screen 0 640x480x24' ssh -X node2 xdpyinfo >xdpyinfo.ssh
status=$?

scancel "$job"
grep dimensions: xdpyinfo.ssh
exit $status
