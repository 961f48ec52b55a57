"""Rank 0 sends each datagram back that the others send to it: none is sent twice. The argument is its address."""
import os
import socket
import sys

PORT = 7007
SIZES = (1, 1000, 1400, 1422, 1423, 1450, 1472, 1473, 2000, 9000)
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
patience = 5 * int(os.environ.get("GRESNET_SLOW", "1"))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def serve():
    s.bind(("", PORT))
    left = size - 1
    while left:
        data, peer = s.recvfrom(65536)
        s.sendto(data, peer)
        left -= data == b"end"


def send():
    s.connect((sys.argv[1], PORT))
    s.settimeout(0.5)
    while True:  # until the server is there
        try:
            s.send(b"hello")
            if s.recv(100) == b"hello":
                break
        except (ConnectionRefusedError, socket.timeout):
            pass
    s.settimeout(patience)
    for n in SIZES:
        s.send(b"x" * n)
        try:
            while len(data := s.recv(65536)) == 5:  # a late hello
                pass
            print(f"{n} bytes: {len(data)} came back")
        except socket.timeout:
            print(f"{n} bytes: lost")
    s.send(b"end")


serve() if rank == 0 else send()
