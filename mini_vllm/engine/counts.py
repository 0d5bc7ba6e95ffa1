"""An engine's counts, under the names of vLLM's metrics.

vLLM: `v1/metrics/stats.py`, `v1/metrics/loggers.py`.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile

from mini_vllm.core.request import FINISH_REASONS
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import DraftStatistics

GAUGES = {
    "num_requests_running": "Requests that run.",
    "num_requests_waiting": "Requests that wait to run.",
    "kv_cache_usage_perc": "Share of the blocks in use, 0 to 1.",
}
DEFERRED = "deferred"  # one of the gauges, so that both reasons and their sum describe the same moment
COUNTERS = {
    "prefix_cache_queries": "Prompt tokens looked up in the cache.",
    "prefix_cache_hits": "Prompt tokens found in the prefix cache.",
    "num_preemptions": "Preemptions.",
    "prompt_tokens": "Tokens of prompts, cached ones too.",
    "generation_tokens": "Tokens generated.",
    "prompt_tokens_cached": "Tokens of prompts that were not computed here.",
}
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
# The bounds and names are vLLM's. Without bounds, use 1, 2, 5, 10, 20, 50 ... up to `max_model_len`.
FIRST_TOKEN_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
TOKEN_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_SECONDS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "iteration_tokens_total": ("Tokens scheduled in a step.", tuple(1 << power for power in (0, *range(3, 15)))),
    "time_to_first_token_seconds": ("From arrival to first token.", FIRST_TOKEN_SECONDS),
    "inter_token_latency_seconds": ("From tokens to the next ones.", TOKEN_SECONDS),
    "request_time_per_output_token_seconds": ("A request's mean time per token.", TOKEN_SECONDS),
    "e2e_request_latency_seconds": ("From arrival to last token.", REQUEST_SECONDS),
    "request_queue_time_seconds": ("From arrival to first step.", REQUEST_SECONDS),
    "request_prefill_time_seconds": ("From first step to first token.", REQUEST_SECONDS),
    "request_decode_time_seconds": ("From first to last token.", REQUEST_SECONDS),
    "request_inference_time_seconds": ("From first step to last token.", REQUEST_SECONDS),
    "request_prompt_tokens": ("A request's prompt tokens.", ()),
    "request_generation_tokens": ("A request's generated tokens.", ()),
    "request_params_max_tokens": ("The max_tokens that a request asked for.", ()),
    "request_num_preemptions": ("How often a request was preempted.", (1, 2, 3, 4, 5, 10, 20)),
    "request_prefill_kv_computed_tokens": ("A prompt's tokens that were computed here.", ()),
    "request_params_n": ("The n that a request asked for.", (1, 2, 5, 10, 20)),
}
CACHE_SETTINGS = (
    "block_size enable_prefix_caching gpu_memory_utilization kv_cache_memory_bytes num_gpu_blocks"
).split()
NUM_RECENT = 1_000  # number of requests that a logged hit rate covers, as in vLLM


class BucketCounts:
    """Counts values in buckets: each value goes into the bucket with the smallest bound at or above it.

    One thread writes, and any thread may read.

    prometheus_client's histogram would take six times as long for every token of a step.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> dict[str, int]:
        """Map each bound, in Prometheus' notation, to the number of values up to it."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return dict(zip(names, accumulate(self._counts), strict=True))


def bounds_1_2_5(maximum: int) -> list[int]:
    """Return 1, 2, 5, 10, 20, 50 ... up to `maximum`. (vLLM: `build_1_2_5_buckets`.)"""
    steps = (digit * 10**power for power in range(len(str(maximum))) for digit in (1, 2, 5))
    return list(takewhile(lambda bound: bound <= maximum, steps))


@dataclass
class Counts:
    """An engine's metrics keyed by name, counted since `EngineStatistics` was created.

    The gauges describe the newest step or request. `drafts` is None if speculative decoding is off. `leak` describes
    blocks that were in use although no request was running. `cache_config` holds the cache settings, converted to
    strings. `waiting_for` counts waiting requests by reason (marks from `engine/reasons.py`), as of a step within the
    last second. `num_rejected` counts the requests that arrived while the waiting queue was full. `recent_lookups`
    holds, for each of the latest 1,000 requests, how many prompt tokens were looked up in the cache and how many were
    found.
    """

    drafts: DraftStatistics | None
    cache_config: dict[str, str]
    histograms: dict[str, BucketCounts]
    leak: str = ""
    gauges: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*GAUGES, DEFERRED), 0.0))
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    num_finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS.values(), 0))
    num_rejected: int = 0
    prompt_tokens_by_source: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SOURCES, 0)))
    waiting_for: Counter[str] = field(default_factory=Counter)
    recent_lookups: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=NUM_RECENT))

    @classmethod
    def of(cls, engine: LLMEngine) -> "Counts":
        """Return the counts of an engine that has done nothing."""
        to_length = bounds_1_2_5(engine.scheduler.max_model_len)
        return cls(
            engine.draft_statistics,
            {name: str(getattr(engine.config, name)) for name in CACHE_SETTINGS},
            {name: BucketCounts(bounds or to_length) for name, (_, bounds) in HISTOGRAMS.items()},
        )

    def recent_hit_rate(self) -> float:
        """Return the fraction of looked-up tokens that were found, or 0 before the first lookup. (vLLM:
        `CachingMetrics`.)"""
        num_queries = sum(queries for queries, _ in self.recent_lookups)
        return sum(hits for _, hits in self.recent_lookups) / max(1, num_queries)
