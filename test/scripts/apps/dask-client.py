"""Squares numbers on the workers of the scheduler that is the argument, or in the file that is."""
import sys

from dask.distributed import Client

where = sys.argv[1]
client = Client(timeout=300, **({"scheduler_file": where} if where.endswith(".json") else {"address": where}))
client.wait_for_workers(2)
print("workers:", len(client.scheduler_info()["workers"]))
print("sum of squares:", sum(client.gather(client.map(lambda x: x * x, range(10)))))
client.shutdown()
