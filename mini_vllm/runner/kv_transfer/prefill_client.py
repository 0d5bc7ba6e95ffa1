"""Requests the K and V of prompts from a prefill process. (vLLM: a decode engine with its `NixlConnector`.)"""

import atexit
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from threading import Thread

from torch import Tensor, distributed

from mini_vllm.electives.gates.connector import BlockStore
from mini_vllm.runner.kv_transfer.peer import DECODE, Peer

logger = logging.getLogger(__name__)


class PrefillClient:
    """Starts a prefill process and, on a thread, stores the blocks that it sends, one prompt at a time.

    A process that exits, does not answer within `timeout` seconds, or sends blocks that differ from `like` gets no
    further prompts. The process reads `opening` to build its engine.
    """

    def __init__(self, module: str, opening: bytes, store: BlockStore, like: Tensor, timeout: float) -> None:
        self.store = store
        self.like = like
        self.timeout = timedelta(seconds=timeout)
        self._is_given_up = False
        self._rendezvous = distributed.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        command = [sys.executable, "-m", module, str(self._rendezvous.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the pipe stays open; closing it would signal that this process has ended
            self.process.stdin.write(opening)
            self.process.stdin.flush()
        self._asked: SimpleQueue[tuple[Future[None], Sequence[int], Sequence[bytes]]] = SimpleQueue()
        self._thread = Thread(target=self._run, name="mini-vllm-prefill", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def is_lost(self) -> bool:
        """Whether no more blocks will arrive. gloo does not notice a process exiting while it connects."""
        return self._is_given_up or self.process.poll() is not None

    def ask(self, token_ids: Sequence[int], block_hashes: Sequence[bytes]) -> Future[None]:
        """Request the blocks of a prompt. The future completes when all blocks have arrived."""
        future = Future[None]()
        self._asked.put((future, list(token_ids), list(block_hashes)))
        return future

    def close(self) -> None:
        """End the process; later requests are never answered."""
        self._is_given_up = True
        self.process.kill()
        self.process.wait()
        self._thread.join(timeout=1)

    def _run(self) -> None:
        try:
            while not self._rendezvous.check(["ready"]):
                if self.process.poll() is not None:
                    raise RuntimeError(f"it ended with status {self.process.returncode}")
                time.sleep(0.02)
            peer = Peer(self._rendezvous, DECODE, self.timeout)
            while True:
                future, token_ids, block_hashes = self._asked.get()
                if future.set_running_or_notify_cancel():
                    peer.send_prompt(token_ids, block_hashes)
                    for block_hash in block_hashes[: peer.receive_num_blocks(self.like, len(block_hashes))]:
                        self.store.put(block_hash, peer.receive(self.like))
                    future.set_result(None)
        except Exception as error:  # also catches the store's errors: without this thread, requests would wait forever
            if not self._is_given_up:
                logger.warning("the prefill process has failed, so prompts are computed here: %s", error)
            self._is_given_up = True
            self.process.kill()
