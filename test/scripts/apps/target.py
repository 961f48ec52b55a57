"""Writes into a file where it is, and lives until it was seen."""
import ctypes
import os
import socket
import time

job = os.environ["SLURM_JOB_ID"]
server = socket.create_server(("", 7011))
word = ctypes.create_string_buffer(b"in its memory")
with open(f"target.{job}.new", "w") as f:
    f.write(f"{os.getpid()} {ctypes.addressof(word)}\n")
os.rename(f"target.{job}.new", f"target.{job}")
while not os.path.exists(f"seen.{job}"):
    time.sleep(0.3)
