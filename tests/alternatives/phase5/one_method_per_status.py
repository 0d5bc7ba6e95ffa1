"""Dispatches on the status, and keeps the settings in a named tuple."""

from collections.abc import Sequence
from typing import NamedTuple

from mini_vllm.core.interfaces import Clamp
from mini_vllm.core.request import Request, RequestStatus
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy as Given


class Settings(NamedTuple):
    clamp: Clamp
    threshold: int
    max_model_len: int
    may_chunk: bool


class ChunkedPrefillPolicy(Given):
    def __init__(self, clamp: Clamp, *settings: int, **named: bool) -> None:
        super().__init__(clamp, *settings, **named)
        self.settings = Settings(clamp, self.threshold, self.max_model_len, self.enable_chunked_prefill)

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        ways = {RequestStatus.RUNNING: self.running, RequestStatus.WAITING: self.waiting}
        ways[RequestStatus.PREEMPTED] = self.waiting
        remaining: Sequence[int] = request.all_token_ids[num_computed_tokens:]
        return ways[request.status](len(remaining), num_computed_tokens, token_budget)

    def running(self, wanted: int, computed: int, budget: int) -> int:
        room = self.settings.max_model_len - computed - 1
        return self.settings.clamp(min(wanted, room), budget, self.settings.threshold)

    def waiting(self, wanted: int, computed: int, budget: int) -> int:
        n = self.settings.clamp(wanted, budget, self.settings.threshold)
        if self.settings.may_chunk or n == wanted or n == self.settings.threshold:
            return n
        return 0
