"""What is known about an engine's past: plain numbers, which any process may have."""

from dataclasses import dataclass, field
from functools import partial

from mini_vllm.core.request import FINISH_REASONS
from mini_vllm.engine.draft_statistics import DraftStatistics
from serving.metrics.histogram import (
    FIRST_TOKEN_SECONDS,
    REQUEST_SECONDS,
    STEP_TOKENS,
    TOKEN_SECONDS,
    Histogram,
)


@dataclass
class Counts:
    """Numbers since the engine began to be watched; queues and usage are those behind the newest step or request.

    `drafts` is None for an engine without speculative decoding.
    """

    has_prefix_caching: bool = False
    drafts: DraftStatistics | None = None
    num_running: int = 0
    num_waiting: int = 0
    kv_cache_usage: float = 0.0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_generation_tokens: int = 0
    num_finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS.values(), 0))
    step_tokens: Histogram = field(default_factory=partial(Histogram, STEP_TOKENS))
    time_to_first_token: Histogram = field(default_factory=partial(Histogram, FIRST_TOKEN_SECONDS))
    inter_token_latency: Histogram = field(default_factory=partial(Histogram, TOKEN_SECONDS))
    time_per_output_token: Histogram = field(default_factory=partial(Histogram, TOKEN_SECONDS))
    e2e_latency: Histogram = field(default_factory=partial(Histogram, REQUEST_SECONDS))
    queue_time: Histogram = field(default_factory=partial(Histogram, REQUEST_SECONDS))

    @property
    def num_queried_tokens(self) -> int:
        """The prompt tokens that were looked up in the prefix cache."""
        return self.num_prompt_tokens if self.has_prefix_caching else 0
