"""Rank 0 keeps a sum at PS_HOST:PS_PORT; each worker adds its rank and reads the sum of all."""
import os
import socket
import time

address = (os.environ["PS_HOST"], int(os.environ["PS_PORT"]))
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])


def serve():
    server = socket.create_server(("", address[1]))
    workers = [server.accept()[0] for _ in range(size - 1)]
    total = sum(int(worker.makefile().readline()) for worker in workers)
    for worker in workers:
        worker.sendall(b"%d\n" % total)
    print(f"server: {total}")


def work():
    while True:
        try:
            connection = socket.create_connection(address)
            break
        except ConnectionRefusedError:  # not there yet
            time.sleep(0.5)
    connection.sendall(b"%d\n" % rank)
    print(f"worker {rank}: {connection.makefile().readline().strip()}")


serve() if rank == 0 else work()
