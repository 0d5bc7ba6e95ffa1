"""Exchanges prompts and blocks between two processes with gloo."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

PREFILL, DECODE = 0, 1
MAX_DIMENSIONS = 4
FOR_EVER, TO_SEND = timedelta(days=365), timedelta(minutes=1)


class Peer:
    """One end of the connection. Every method raises `RuntimeError` if the other process has exited or does not
    respond."""

    def __init__(self, rendezvous: Any, rank: int, timeout: timedelta) -> None:
        self.other = 1 - rank
        self.timeout = timeout
        self.group: Any = distributed.ProcessGroupGloo(rendezvous, rank, 2, timeout)

    def send(self, tensor: Tensor) -> None:
        self.group.send([tensor.contiguous()], self.other, 0).wait(self.timeout)

    def receive(self, like: Tensor, timeout: timedelta | None = None) -> Tensor:
        # gloo accepts a shorter message and leaves the rest of the buffer unchanged
        tensor = torch.zeros_like(like, device="cpu")
        self.group.recv([tensor], self.other, 0).wait(timeout or self.timeout)
        return tensor

    def send_prompt(self, token_ids: Sequence[int], block_hashes: Sequence[bytes]) -> None:
        """Send a prompt and the hashes of its full blocks: at least one hash, and all of equal length."""
        self.send(torch.tensor([len(token_ids), len(block_hashes), len(block_hashes[0])]))
        self.send(torch.tensor(token_ids))
        self.send(torch.frombuffer(bytearray(b"".join(block_hashes)), dtype=torch.uint8))

    def receive_prompt(self) -> tuple[list[int], list[bytes]]:
        """Wait for a prompt, with practically no time limit."""
        num_tokens, num_blocks, size = self.receive(torch.zeros(3, dtype=torch.int64), FOR_EVER).tolist()
        token_ids = self.receive(torch.zeros(num_tokens, dtype=torch.int64)).tolist()
        joined = bytes(self.receive(torch.zeros(num_blocks * size, dtype=torch.uint8)).tolist())
        return token_ids, [joined[start : start + size] for start in range(0, len(joined), size)]

    def send_blocks(self, blocks: Sequence[Tensor]) -> None:
        """Send the number, size and shape of the blocks, then each block."""
        form = [blocks[0].nbytes, *blocks[0].shape] if blocks else [0] * (1 + MAX_DIMENSIONS)
        self.send(torch.tensor([len(blocks), *form]))
        for block in blocks:
            self.send(block)

    def receive_num_blocks(self, like: Tensor, num_asked: int) -> int:
        """Receive the announcement, and return the number of blocks that follow.

        Raises `RuntimeError` for too many blocks, or for blocks that differ from `like`.

        The size is checked first, because gloo kills the receiving process if a message is too long.
        """
        num_blocks, *form = self.receive(torch.zeros(2 + MAX_DIMENSIONS, dtype=torch.int64)).tolist()
        if num_blocks and form != (wanted := [like.nbytes, *like.shape]):
            raise RuntimeError(
                f"blocks must have the size in bytes and shape {wanted}, but the other process sends {form}"
            )
        if not 0 <= num_blocks <= num_asked:
            raise RuntimeError(f"it sent {num_blocks} blocks, but only {num_asked} were requested")
        return int(num_blocks)


def serve(port: int, compute: Callable[[list[int]], None], store: Any) -> None:
    """Run a prefill process: receive prompts, call `compute` to fill the store, and send the blocks.

    Returns when the other process has exited.
    """
    with suppress(RuntimeError):
        rendezvous = distributed.TCPStore("127.0.0.1", port, 2, is_master=False)  # type: ignore[attr-defined]
        rendezvous.set("ready", "1")
        peer = Peer(rendezvous, PREFILL, TO_SEND)
        while True:
            token_ids, block_hashes = peer.receive_prompt()
            if store.lookup(block_hashes) < len(block_hashes):
                compute(token_ids)
            peer.send_blocks([store.get(block_hash) for block_hash in block_hashes[: store.lookup(block_hashes)]])
