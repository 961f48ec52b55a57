"""Outside of the cluster: answers a datagram with as many bytes as it asks for."""
import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7008))
while True:
    wanted, peer = s.recvfrom(100)
    s.sendto(b"x" * int(wanted), peer)
