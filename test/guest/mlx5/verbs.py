"""A program of verbs that does what it is asked: verbs.py SOCKET DEVICE GID END.

Each line that comes by the Unix socket is a command and gets a line: a test holds the other end. The program goes on
in the background as a session of its own, and its parent waits for the file END, as a job does that has work to do.
"""
import os
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

path, device, index, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
SIZE = 64
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
STATUS = {getattr(e, name): name[len("IBV_WC_"):] for name in dir(e) if name == "IBV_WC_SUCCESS" or name[:7] == "IBV_WC_" and name.endswith("_ERR")}


class Program:
    def __init__(self):
        self.context = Context(name=device)
        self.domains = [PD(self.context)]
        self.completions = CQ(self.context, 64)
        self.source = MR(self.domains[0], SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.memories = []
        self.pairs = []

    def about(self):
        return f"{device} {os.getpid()}"

    def memory(self, where="here"):
        """registers some more, perhaps in a protection domain of its own"""
        if where == "apart":
            self.domains.append(PD(self.context))
        m = MR(self.domains[-1 if where == "apart" else 0], SIZE, ACCESS)
        m.write("-" * 8, 8)
        self.memories.append(m)
        return f"{m.buf} {m.rkey}"

    def read(self, n):
        return self.memories[int(n)].read(8, 0).decode()

    def pair(self):
        q = QP(self.domains[0], QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.completions, rcq=self.completions,
                                           cap=QPCap(max_send_wr=8, max_recv_wr=8)))
        self.pairs.append(q)
        return f"{q.qp_num} {self.context.query_gid(1, index).gid}"

    def connect(self, number, gid):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=index))
        attr.dest_qp_num = int(number)
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer = 12
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
        self.pairs[-1].to_rts(attr)
        return "connected"

    def post(self, address, key, text):
        """has the last pair write eight bytes into the memory of its peer"""
        self.source.write(text, 8)
        wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(self.source.buf, 8, self.source.lkey)])
        wr.set_wr_rdma(int(key), int(address))
        self.pairs[-1].post_send(wr)
        return "posted"

    def poll(self):
        n, all = self.completions.poll()
        return STATUS[all[0].status] if n else "nothing"

    def write(self, address, key, text):
        """waits for how it ends"""
        self.post(address, key, text)
        while (said := self.poll()) == "nothing":
            time.sleep(0.01)
        return said


def serve():
    program = Program()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen()
    os.rename(path + ".new", path)
    while True:
        peer, _ = listener.accept()
        with peer, peer.makefile("rw") as f:
            command, *arguments = f.readline().split()
            try:
                said = getattr(program, command)(*arguments)
            except Exception as error:
                said = f"error: {error}".replace("\n", " ")
            f.write(said + "\n")


if os.fork() == 0:
    os.setsid()
    serve()
while not os.path.exists(end):
    time.sleep(0.1)
