"""An MPI program: says how large its world is and whether messages arrive."""
import os
import socket
import time

INHERITED = os.listdir("/proc/self/fd")

from mpi4py import MPI  # it opens files of its own

MEGABYTE = 1 << 20


def ping_pong(world, rank):
    """Sends a megabyte from rank 0 to 1 and back; returns what has arrived."""
    data = bytearray(MEGABYTE)
    if rank == 0:
        world.Send([bytearray(b"g" * MEGABYTE), MPI.BYTE], dest=1)
        world.Recv([data, MPI.BYTE], source=1)
    elif rank == 1:
        world.Recv([data, MPI.BYTE], source=0)
        world.Send([data, MPI.BYTE], dest=0)
    return data.count(b"g")


def listeners():
    """Counts the listening sockets that came with the process."""
    n = 0
    for fd in INHERITED:
        try:
            with socket.socket(fileno=os.dup(int(fd))) as s:
                n += s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError:
            pass  # a file, or closed by now
    return n


world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
total = world.allreduce(rank)
arrived = ping_pong(world, rank) if size > 1 else 0
print(
    f"rank={rank} size={size} sum={total} arrived={arrived} listeners={listeners()}"
    f" net={os.readlink('/proc/self/ns/net')} node={socket.gethostname()}",
    flush=True,
)
then = os.environ.get("THEN")
if then == "crash" and rank == 1:
    os.abort()
if then:
    time.sleep(1000)
