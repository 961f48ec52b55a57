"""Servers that answer each who comes with a name and as whom they see them, and a client of theirs.

echo.py serve NAME ADDRESS PORT...
echo.py squat UID NAME ADDRESS PORT...    serves as a user
echo.py hear NAME GROUP PORT
echo.py call    takes a call from each line: tcp|udp|icmp ADDRESS PORT PATIENCE [uid=N] [dev=NAME] [src=ADDRESS] [own=PORT] [free=1] [ttl=N]
                [size=BYTES] [options=HEX]
echo.py gather GROUP PORT    prints the names of those who hear a multicast or a broadcast
"""
import os
import socket
import sys
import threading
import time


def serve(name, address, ports):
    def tcp(s):
        s.listen(64)
        while True:
            c, peer = s.accept()
            c.sendall(f"{name}<{peer[0]}".encode())
            c.close()

    def udp(s):
        while True:
            data, peer = s.recvfrom(65536)
            s.sendto(f"{name}<{peer[0]}".encode().ljust(len(data)), peer)

    for port in ports:
        for kind, answer in ((socket.SOCK_STREAM, tcp), (socket.SOCK_DGRAM, udp)):
            s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, int(port)))
            threading.Thread(target=answer, args=(s,), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def hear(name, group, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((group, int(port)))
    if not group.endswith(".255"):
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton("0.0.0.0"))
    print("ready", flush=True)
    while True:
        s.sendto(name.encode(), s.recvfrom(65536)[1])


def gather(group, port, patience=60):
    """Asks again until there is an answer, and looks a second longer for others."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.settimeout(1)
    names, end = set(), time.monotonic() + patience
    while time.monotonic() < end:
        if not names:
            s.sendto(b"who?".ljust(3000), (group, int(port)))
        try:
            names.add(s.recv(100).decode())
        except socket.timeout:
            if names:
                break
    return " ".join(sorted(names))


def ask(s, question, patience):
    """Asks again each second: a router bounds how many errors it sends."""
    end = time.monotonic() + patience
    s.settimeout(min(1, patience))
    while True:
        s.send(question)
        try:
            return s.recv(65536)
        except socket.timeout:
            if time.monotonic() >= end:
                raise


def call(kind, address, port, patience, uid="0", dev="", src="", own="0", free="", ttl="", size="3", options=""):
    os.seteuid(int(uid))
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM,
                      socket.IPPROTO_ICMP if kind == "icmp" else 0)
    s.settimeout(float(patience))
    try:
        if dev:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, dev.encode())
        if free:
            s.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
        if ttl:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, int(ttl))
            s.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
        if options:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes.fromhex(options))
        if src or own != "0":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((src, int(own)))
        s.connect((address, int(port)))
        if kind == "tcp":
            return s.recv(65536).decode().strip()
        if kind == "icmp":
            return "answers" if ask(s, bytes([8, 0, 0, 0, 0, 0, 0, 1]), float(patience)) else ""
        answer = ask(s, b"x" * int(size), float(patience))
        return answer.decode().strip() + ("" if len(answer) >= int(size) else " short")
    except socket.timeout:
        return "silence"
    except ConnectionRefusedError:
        return "refused"
    except OSError as e:
        return os.strerror(e.errno)
    finally:
        os.seteuid(0)


if sys.argv[1] == "serve":
    serve(sys.argv[2], sys.argv[3], sys.argv[4:])
elif sys.argv[1] == "squat":
    os.setuid(int(sys.argv[2]))
    serve(sys.argv[3], sys.argv[4], sys.argv[5:])
elif sys.argv[1] == "hear":
    hear(*sys.argv[2:])
elif sys.argv[1] == "gather":
    print(gather(*sys.argv[2:]))
else:
    for line in sys.stdin:
        words = line.split()
        print(call(*words[:4], **dict(a.split("=") for a in words[4:])), flush=True)
