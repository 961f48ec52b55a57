"""An MPI program: says how large its world is and whether messages arrive."""
import os
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
total = world.allreduce(rank)

data = bytearray(1 << 20)
if rank == 0 and size > 1:
    data[:] = b"g" * len(data)
    world.Send([data, MPI.BYTE], dest=1)
    world.Recv([data, MPI.BYTE], source=1)
elif rank == 1:
    world.Recv([data, MPI.BYTE], source=0)
    world.Send([data, MPI.BYTE], dest=0)
arrived = data.count(b"g") if rank < 2 else 0

if "CRASH" in os.environ and rank == 1:
    os.abort()
if "STAY" in os.environ:
    world.Barrier()
    print("stays", flush=True)
    time.sleep(1000)
print(f"rank {rank} size {size} sum {total} bytes {arrived} net {os.readlink('/proc/self/ns/net')}", flush=True)
