"""Prints what ioctls, getifaddrs, netlink and files say of eth0."""
import fcntl
import json
import socket
import struct
import subprocess

import psutil

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def ask(request):
    return fcntl.ioctl(s, request, struct.pack("256s", b"eth0"))[16:]


for word, request in (("SIOCGIFADDR", 0x8915), ("SIOCGIFBRDADDR", 0x8919), ("SIOCGIFNETMASK", 0x891B)):
    print(word, socket.inet_ntoa(ask(request)[4:8]))
for word, request in (("SIOCGIFMTU", 0x8921), ("SIOCGIFINDEX", 0x8933)):
    print(word, struct.unpack("i", ask(request)[:4])[0])
print("SIOCGIFHWADDR", "is of type", struct.unpack("H", ask(0x8927)[:2])[0])
flags = struct.unpack("H", ask(0x8913)[:2])[0]
print("SIOCGIFFLAGS", {name: bool(flags & bit) for name, bit in (("up", 1), ("broadcast", 2), ("running", 64), ("noarp", 128), ("multicast", 4096))})
print("getifaddrs", [(a.address, a.netmask, a.broadcast) for a in psutil.net_if_addrs()["eth0"] if a.family == socket.AF_INET])
link = json.loads(subprocess.run(["ip", "-j", "-4", "addr", "show", "dev", "eth0"], capture_output=True, check=True).stdout)[0]
print("netlink", link["operstate"], [(a["local"], a["prefixlen"], a.get("broadcast"), a["scope"]) for a in link["addr_info"]])
for name in ("operstate", "carrier", "mtu", "type", "ifindex"):
    with open(f"/sys/class/net/eth0/{name}") as f:
        print("file", name, f.read().strip())
