#!/bin/bash
# Two steps on a node talk by a Unix socket in a folder, and by an abstract one.
#SBATCH --job-name=unix-socket
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --overlap --ntasks=1 python3 -c "
import socket, os
for name in ('/tmp/socket.$SLURM_JOB_ID', '\\0job.$SLURM_JOB_ID'):
    s = socket.socket(socket.AF_UNIX)
    s.bind(name)
    s.listen()
    s.accept()[0].sendall(b'hello\n')" &
srun --overlap --ntasks=1 python3 -c "
import socket, time
for name in ('/tmp/socket.$SLURM_JOB_ID', '\\0job.$SLURM_JOB_ID'):
    while True:
        try:
            s = socket.socket(socket.AF_UNIX)
            s.connect(name)
            break
        except OSError:
            time.sleep(0.2)
    print(s.makefile().readline().strip())"
wait
