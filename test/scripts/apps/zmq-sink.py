"""Rank 0 binds ZeroMQ to an interface by its name, as ZeroMQ allows, and the others push to SINK."""
import os

import zmq

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
context = zmq.Context()
if rank == 0:
    sink = context.socket(zmq.PULL)
    sink.bind("tcp://eth0:5557")
    print("sink:", sorted(sink.recv_string() for _ in range(size - 1)))
else:
    push = context.socket(zmq.PUSH)
    push.connect(f"tcp://{os.environ['SINK']}:5557")
    push.send_string(f"rank {rank}")
context.destroy()
