"""The last rank listens at the address that it finds for itself, and writes it into a file; the others read the
file and connect. The argument says how it finds its address: as Ray and Dask do (route), by its name (name, fqdn),
by its first interface (psutil) or by one's name (eth0)."""
import os
import socket
import sys
import time

import psutil


def route():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("8.8.8.8", 80))
        return s.getsockname()[0]


def interface(name):
    return next(a.address for a in psutil.net_if_addrs()[name] if a.family == socket.AF_INET)


def first():
    addresses = [a for all_of_it in psutil.net_if_addrs().values() for a in all_of_it]
    return next(a.address for a in addresses if a.family == socket.AF_INET and not a.address.startswith("127."))


how = sys.argv[1]
ways = {
    "route": route,
    "name": lambda: socket.gethostbyname(socket.gethostname()),
    "fqdn": lambda: socket.gethostbyname(socket.getfqdn()),
    "psutil": first,
}
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
file = f"address.{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}"


def serve():
    address = ways[how]() if how in ways else interface(how)
    server = socket.create_server((address, 0))
    with open(file + ".new", "w") as f:
        f.write(f"{address} {server.getsockname()[1]}")
    os.rename(file + ".new", file)
    print(f"rank {rank} serves at {address}")
    for _ in range(size - 1):
        connection, (peer, _) = server.accept()
        connection.sendall(b"welcome from %s" % peer.encode())
        connection.close()


def work():
    while not os.path.exists(file):
        time.sleep(0.2)
    address, port = open(file).read().split()
    with socket.create_connection((address, int(port))) as connection:
        print(f"rank {rank} of {size}: {connection.makefile().read()}, by {connection.getsockname()[0]}")


serve() if rank == size - 1 else work()
