"""Squares numbers on the workers of the scheduler that is the argument."""
import sys

from dask.distributed import Client

client = Client(sys.argv[1], timeout=300)
client.wait_for_workers(2)
print("workers:", len(client.scheduler_info()["workers"]))
print("sum of squares:", sum(client.gather(client.map(lambda x: x * x, range(10)))))
client.shutdown()
