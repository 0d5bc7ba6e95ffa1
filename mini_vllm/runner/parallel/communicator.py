"""Sum tensors over the ranks."""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

c10d: Any = torch.distributed  # without types
HOST = "127.0.0.1"
TIMEOUT = timedelta(minutes=5)
"""How long a rank waits for the others: they get the same work, but one may still be loading."""


class LostRankError(RuntimeError):
    """Another rank has stopped responding."""


def meeting_point(size: int) -> Any:
    """Return the store through which `size` ranks find each other. Rank 0 hosts it; the others need its `port`."""
    return c10d.TCPStore(HOST, 0, size, is_master=True, timeout=TIMEOUT, wait_for_workers=False)


def join(port: int, size: int) -> Any:
    """Return a client of the store that rank 0 hosts."""
    return c10d.TCPStore(HOST, port, size, is_master=False, timeout=TIMEOUT)


class Communicator:
    """Rank `rank` of `size`, over gloo on CPUs and NCCL on GPUs. All ranks must create theirs together.

    Not torch's default group, so that a process can have several engines.
    """

    def __init__(self, store: Any, rank: int, size: int, device: torch.device) -> None:
        self.store, self.rank, self.size = store, rank, size
        make_group = c10d.ProcessGroupNCCL if device.type == "cuda" else c10d.ProcessGroupGloo
        self.group = make_group(store, rank, size, TIMEOUT)

    def all_reduce(self, share: Tensor) -> Tensor:
        """Replace `share` by the sum of all ranks' shares and return it. Raises `LostRankError`."""
        try:
            self.group.allreduce([share]).wait()
        except RuntimeError as error:
            raise LostRankError(f"rank {self.rank} of {self.size} has lost the others: {error}") from error
        return share
