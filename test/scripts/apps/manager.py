"""Rank 0 has a queue of Python's multiprocessing at MASTER_ADDR, and the others take from it."""
import os
import queue
import time
from multiprocessing.managers import BaseManager

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
work, done = queue.Queue(), queue.Queue()
BaseManager.register("work", callable=lambda: work)
BaseManager.register("done", callable=lambda: done)
address = (os.environ["MASTER_ADDR"], 5000)

if rank == 0:
    manager = BaseManager(("", address[1]), b"key")
    manager.start()
    for n in range(size - 1):
        manager.work().put(n + 2)
    print("cubes:", sorted(manager.done().get() for _ in range(size - 1)))
else:
    manager = BaseManager(address, b"key")
    while True:
        try:
            manager.connect()
            break
        except ConnectionRefusedError:  # not there yet
            time.sleep(0.5)
    manager.done().put(manager.work().get() ** 3)
