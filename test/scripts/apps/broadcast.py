"""Rank 0 says by a broadcast where it is, and the others hear it or give up."""
import os
import socket
import time

rank = int(os.environ["SLURM_PROCID"])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
ready = f"hears.{os.environ['SLURM_JOB_ID']}"
if rank == 0:
    while not os.path.exists(ready):
        time.sleep(0.2)
    for _ in range(20):
        s.sendto(b"here", ("192.0.2.255", 7009))
        time.sleep(0.5)
else:
    s.bind(("", 7009))
    s.settimeout(30)
    open(ready, "w").close()
    print(f"rank {rank} hears: {s.recv(100).decode()}")
