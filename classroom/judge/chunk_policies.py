"""Chunk policies that the judge puts between the engine and a learner's policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager
from mini_vllm.core.request import Request, RequestStatus


@dataclass
class MixedChunkPolicy:
    """A chunk policy whose methods may come from different implementations."""

    sizes: ChunkPolicy
    admission: ChunkPolicy
    sampling: ChunkPolicy

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        return self.sizes.num_new_tokens(request, num_computed_tokens, token_budget)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return self.admission.admits(request, hit_blocks, running, kv)

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return self.sampling.should_sample(request, num_computed_tokens)


class ReluctantChunkPolicy(MixedChunkPolicy):
    """Schedules no tokens of a running request in some steps, chosen by the request and the step only."""

    step = 0

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        if request.status is RequestStatus.RUNNING and crc32(f"{request.request_id}/{self.step}".encode()) % 4 == 0:
            return 0
        return super().num_new_tokens(request, num_computed_tokens, token_budget)
