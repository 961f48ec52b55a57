"""Each rank has a server of asyncio's, which tells its clients their address, and calls all servers."""
import asyncio
import os
import subprocess

PORT = 7012
job, rank, size = os.environ["SLURM_JOB_ID"], int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
nodes = subprocess.run(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], capture_output=True, check=True, text=True).stdout.split()


async def tell(reader, writer):
    writer.write(f"{writer.get_extra_info('peername')[0]}\n".encode())
    await writer.drain()
    writer.close()


async def call(host):
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, PORT)
            break
        except ConnectionRefusedError:  # not there yet
            await asyncio.sleep(0.3)
    line = await reader.readline()
    writer.close()
    return line.decode().strip()


async def main():
    server = await asyncio.start_server(tell, None, PORT)
    print("listens on", sorted(s.getsockname()[0] for s in server.sockets))
    for host in (*nodes, "localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1"):
        print(f"is {await call(host)} for {host}")
    open(f"dual.{job}.{rank}", "w").close()
    while not all(os.path.exists(f"dual.{job}.{r}") for r in range(size)):
        await asyncio.sleep(0.3)


asyncio.run(main())
