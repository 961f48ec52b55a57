"""A program that meets its fellows by PMI2, as MPICH does when it starts."""
import ctypes
import os
import socket

pmi2 = ctypes.CDLL("libpmi2.so.0")


def call(name, *arguments):
    """Calls PMI2; everything but 0 is an error."""
    status = getattr(pmi2, name)(*arguments)
    if status:
        raise SystemExit(f"{name}: {status}")


spawned, size, rank, application = (ctypes.c_int() for _ in range(4))
call("PMI2_Init", *map(ctypes.byref, (spawned, size, rank, application)))
job = ctypes.create_string_buffer(256)
call("PMI2_Job_GetId", job, len(job))

# Each puts down what the others cannot know otherwise, and reads what its neighbour has.
card = f"{rank.value}@{os.readlink('/proc/self/ns/net')}"
call("PMI2_KVS_Put", b"card-%d" % rank.value, card.encode())
call("PMI2_KVS_Fence")
neighbour = (rank.value + 1) % size.value
read, length = ctypes.create_string_buffer(256), ctypes.c_int()
call("PMI2_KVS_Get", job, -1, b"card-%d" % neighbour, read, len(read), ctypes.byref(length))
print(f"rank={rank.value} size={size.value} card={card} neighbour={read.value.decode()} node={socket.gethostname()}", flush=True)
call("PMI2_Finalize")
