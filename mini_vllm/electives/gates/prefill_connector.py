"""A connector that requests prompts from a prefill process before it looks in its store."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from mini_vllm.core.request import Request
from mini_vllm.electives.gates.connector import KVConnector, KVConnectorMetadata


class Prefill(Protocol):
    """Computes prompts outside this engine."""

    @property
    def is_lost(self) -> bool:
        """Whether prefill has failed and will deliver no more blocks."""

    def ask(self, token_ids: Sequence[int], block_hashes: Sequence[bytes]) -> Future[None]:
        """Ask the prefill process to put the blocks of a prompt into the store."""


class PrefillConnector:
    """Wraps a `KVConnector` over a store into which `prefill` puts the blocks of prompts.

    A request waits without blocks until its prompt's blocks are stored, for at most `timeout` seconds. After that, the
    request uses the blocks stored so far.
    """

    def __init__(self, inner: KVConnector, prefill: Prefill, block_size: int, timeout: float) -> None:
        self.inner = inner
        self.prefill = prefill
        self.block_size = block_size
        self.timeout = timeout
        self._asked: dict[str, tuple[Future[None], float]] = {}

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        num_stored, is_async = self.inner.get_num_new_matched_tokens(request, num_computed_tokens)
        num_blocks = (request.num_tokens - 1) // self.block_size
        if request.request_id not in self._asked:
            # The other process would also need the salt and the adapter. Tokens that this engine generated are not
            # requested.
            is_plain = request.cache_salt is None and request.adapter_id is None and not request.num_output_tokens
            is_here = num_computed_tokens + (num_stored or 0) >= num_blocks * self.block_size
            if is_here or not is_plain or self.prefill.is_lost:
                return num_stored, is_async
            future = self.prefill.ask(request.prompt_token_ids, request.block_hashes[:num_blocks])
            self._asked[request.request_id] = future, time.monotonic() + self.timeout
        future, deadline = self._asked[request.request_id]
        if future.done() or self.prefill.is_lost or time.monotonic() > deadline:
            return num_stored, is_async
        return None, False

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        future, _ = self._asked.pop(request.request_id, (None, 0.0))
        if future is not None:
            future.cancel()
        return self.inner.request_finished(request, block_ids)

    def update_state_after_alloc(self, request: Request, block_ids: Sequence[int], num_external_tokens: int) -> None:
        self.inner.update_state_after_alloc(request, block_ids, num_external_tokens)

    def request_preempted(self, request: Request, block_ids: Sequence[int], num_computed_tokens: int) -> None:
        self.inner.request_preempted(request, block_ids, num_computed_tokens)

    def build_connector_meta(self) -> KVConnectorMetadata:
        return self.inner.build_connector_meta()
