"""Asks the server beside the cluster for answers of all sizes by UDP, each once."""
import socket

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("192.0.2.53", 7008))
s.settimeout(20)
for n in (512, 1400, 1422, 1423, 1450, 1472, 1473, 4000):
    s.send(b"%d" % n)
    try:
        print(f"asked for {n}: got {len(s.recv(65536))}")
    except socket.timeout:
        print(f"asked for {n}: lost")
