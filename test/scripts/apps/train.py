"""Sums the ranks: what any training's first all_reduce does."""
import os

import torch
import torch.distributed as dist

if "RANK" in os.environ:  # torchrun
    dist.init_process_group("gloo")
else:
    dist.init_process_group(
        "gloo",
        rank=int(os.environ["SLURM_PROCID"]),
        world_size=int(os.environ["SLURM_NTASKS"]),
    )
ones = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(ones)
# in one piece: torchrun's processes share its stdout
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}: {ones.tolist()}\n".encode())
dist.destroy_process_group()
