"""Calls whom there is not, and prints each error."""
import errno
import os
import socket
import subprocess


def call(family, kind, host, port):
    with socket.socket(family, kind) as s:
        s.settimeout(60)
        try:
            s.connect((host, port))
            s.send(b"anybody?")
            s.recv(10)
            return "nothing"
        except socket.timeout:
            return "timeout"
        except OSError as e:
            return errno.errorcode.get(e.errno, str(e))


nodes = subprocess.run(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], capture_output=True, check=True, text=True).stdout.split()
for host in ("localhost", *nodes, "www.example.com"):
    for port in (81, 7999):
        print(f"port {port} of {host} by TCP:", call(socket.AF_INET, socket.SOCK_STREAM, host, port))
    print(f"port 7999 of {host} by UDP:", call(socket.AF_INET, socket.SOCK_DGRAM, host, 7999))
print("an address that no host has:", call(socket.AF_INET, socket.SOCK_STREAM, "192.0.2.99", 80))
print("a broadcast address:", call(socket.AF_INET, socket.SOCK_STREAM, "192.0.2.255", 80))
print("the loopback by IPv6:", call(socket.AF_INET6, socket.SOCK_STREAM, "::1", 7999))
print("a host of IPv6:", call(socket.AF_INET6, socket.SOCK_STREAM, "2001:db8::1", 80))
try:
    socket.getaddrinfo("no-such-host.example.com", 80)
except OSError as e:
    print("a name that no host has:", type(e).__name__)
