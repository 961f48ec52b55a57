"""Each rank listens at its host's name and calls all others, as peers do that share data."""
import os
import socket
import threading
import time

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
folder = f"peers.{os.environ['SLURM_JOB_ID']}"
server = socket.create_server((socket.gethostname(), 0))
callers = []


def serve():
    for _ in range(size - 1):
        connection, _ = server.accept()
        callers.append(connection.makefile().readline().strip())


listener = threading.Thread(target=serve)
listener.start()
os.makedirs(folder, exist_ok=True)
with open(f"{folder}/new.{rank}", "w") as f:
    f.write(f"{socket.gethostname()} {server.getsockname()[1]}")
os.rename(f"{folder}/new.{rank}", f"{folder}/{rank}")
for peer in range(size):
    while not os.path.exists(f"{folder}/{peer}"):
        time.sleep(0.2)
    if peer != rank:
        name, port = open(f"{folder}/{peer}").read().split()
        with socket.create_connection((name, int(port))) as connection:
            connection.sendall(b"%d\n" % rank)
listener.join()
print(f"rank {rank} was called by {sorted(callers)}")
