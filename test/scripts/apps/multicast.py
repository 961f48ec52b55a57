"""Rank 0 is in a multicast group, and the others ask that group where it is until it answers."""
import os
import socket
import struct

GROUP = ("239.1.2.3", 7010)
rank, size, job = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]), os.environ["SLURM_JOB_ID"]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)


def serve():
    s.bind(("", GROUP[1]))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(GROUP[0]), bytes(4)))
    while not all(os.path.exists(f"found.{job}.{r}") for r in range(1, size)):
        try:
            s.sendto(b"here", s.recvfrom(100)[1])
        except socket.timeout:
            pass


def ask():
    answer = b"nothing"
    for _ in range(60):
        s.sendto(b"where?", GROUP)
        try:
            answer = s.recv(100)
            break
        except socket.timeout:
            pass
    print(f"rank {rank} hears: {answer.decode()}")
    open(f"found.{job}.{rank}", "w").close()


serve() if rank == 0 else ask()
