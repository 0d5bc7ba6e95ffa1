"""`python -m tests.model.false_prefill PORT` runs a prefill process with one fault, or with "none".

The first line of standard input contains the fault's name and a folder with the correct blocks.
"""

import os
import sys
import time
from contextlib import suppress
from datetime import timedelta

import torch
from safetensors.torch import load_file
from torch import distributed

from mini_vllm.runner.kv_transfer.peer import PREFILL, Peer

FAULTS = (
    "ends before it is ready",
    "is never ready",
    "does not answer",
    "ends while it connects",
    "ends between two blocks",
    "stops between two blocks",
    "announces too many blocks",
    "announces fewer than none",
    "has blocks of another dtype",
    "has longer blocks",
    "sends half a header",
    "sends nothing at all",
)


def main(port: int, fault: str, folder: str) -> None:
    if fault == "ends before it is ready":
        sys.exit(3)
    if fault == "is never ready":
        time.sleep(600)
    rendezvous = distributed.TCPStore("127.0.0.1", port, 2, is_master=False)  # type: ignore[attr-defined]
    rendezvous.set("ready", "1")
    if fault == "ends while it connects":
        os._exit(1)
    peer = Peer(rendezvous, PREFILL, timedelta(minutes=1))
    with suppress(RuntimeError):  # the other process no longer exists
        while True:
            _, block_hashes = peer.receive_prompt()
            answer(peer, fault, [load_file(f"{folder}/{one.hex()}.safetensors")["kv"] for one in block_hashes])


def answer(peer: Peer, fault: str, blocks: list[torch.Tensor]) -> None:
    num_blocks = len(blocks)
    announced = {"announces too many blocks": num_blocks + 2, "announces fewer than none": -1}.get(fault, num_blocks)
    match fault:
        case "does not answer":
            time.sleep(600)
        case "sends half a header":
            peer.send(torch.tensor([num_blocks]))
            return
        case "sends nothing at all":
            announced = 0
    if fault == "has blocks of another dtype":
        blocks = [block.bfloat16() for block in blocks]
    elif fault == "has longer blocks":
        blocks = [torch.cat([block, block]) for block in blocks]
    peer.send(torch.tensor([announced, blocks[0].nbytes, *blocks[0].shape]))
    for number in range(announced):
        if number and fault == "ends between two blocks":
            os._exit(1)
        if number and fault == "stops between two blocks":
            time.sleep(600)
        peer.send(blocks[number % num_blocks])


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.stdin.readline().strip().split(";"))
