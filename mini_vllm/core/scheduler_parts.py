"""What a scheduler is made of besides its running queue."""

from dataclasses import dataclass, field

from mini_vllm.core.gates.gated import NoGates
from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, PrefixCache, RequestQueue
from mini_vllm.core.tokens_ahead import TokensAhead
from mini_vllm.core.windows.grouped_kv_cache import GroupedKVCacheManager


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """The waiting queue and phases 2 to 5: everything besides `running` that keeps state from step to step.

    `ahead` are phases 7 and 8, which wrap two of them; None without. `gates` are what a step asks before it admits,
    which wrap three. `groups` is phase 12's KV cache manager, which those around it hide; None without windows.
    """

    kv: KVCacheManager
    prefix_cache: PrefixCache
    preemption: Preemption
    chunks: ChunkPolicy
    waiting: RequestQueue
    ahead: TokensAhead | None = None
    gates: NoGates = field(default_factory=NoGates)
    groups: GroupedKVCacheManager | None = None
