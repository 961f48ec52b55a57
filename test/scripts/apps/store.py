"""Rank 0 serves a key by MASTER_ADDR and MASTER_PORT, and the others fetch it."""
import os
import socket
import time

address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])


def connect():
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:  # not there yet
            time.sleep(0.5)


if rank == 0:
    server = socket.create_server(("", address[1]))
    for _ in range(size - 1):
        connection, _ = server.accept()
        connection.sendall(b"the key")
        connection.close()
    print("rank 0: all have the key")
else:
    with connect() as connection:
        print(f"rank {rank}: {connection.recv(100).decode()}")
