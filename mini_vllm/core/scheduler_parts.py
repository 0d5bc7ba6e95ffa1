"""What a scheduler is made of besides its running queue, and how it sees the electives among these parts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.interfaces import (
    ChunkPolicy,
    KVCacheManager,
    Preemption,
    PrefixCache,
    RequestQueue,
    SchedulingFunctions,
)
from mini_vllm.core.request import Request
from mini_vllm.core.step import KVConnectorOutput, SchedulerOutput

Sampled = dict[str, list[int]]


class Gates(Protocol):
    """Phases 9 to 11: what decides whether a waiting request may be admitted. (`electives/gates/`.)"""

    @property
    def passes_over(self) -> bool:
        """Whether a request may be admitted before one that came earlier."""

    @property
    def has_connector(self) -> bool:
        """Whether K and V of some requests come from elsewhere or are sent there."""

    @property
    def awaits_others(self) -> bool:
        """Whether a step that plans nothing is no stall: a grammar or a transfer is under way outside the steps."""

    @property
    def requests_being_sent(self) -> Sequence[str]:
        """The ended requests whose blocks are held until their K and V have been sent elsewhere."""

    def take_errors(self) -> dict[str, str]:
        """Return why waiting requests can never be admitted, by request id, since the last call."""

    def start_step(self) -> None:
        """Forget the last step."""

    def end_plan(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Phase 1 has made its plan; its tokens do not count as computed yet."""

    def break_stall(self, requests: Collection[Request]) -> bool:
        """Nothing was planned and nothing is under way: return whether the next plan may be another one."""

    def advanced(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """The tokens of the plan count as computed."""

    def without_lost(self, sampled: Sampled, output: KVConnectorOutput | None, running: Sequence[Request]) -> Sampled:
        """Return the sampled tokens without those of requests whose blocks were lost under them."""

    def end_step(self, output: KVConnectorOutput | None, *, is_idle: bool, has_sampled: bool) -> None:
        """The tokens of a step are applied."""


class PlansAhead(Protocol):
    """Phases 7 and 8 around phase 1's plan and update. (`electives/tokens_ahead.py`.)"""

    def after_schedule(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Take the drafts of the scheduled requests, and placeholders for what they will sample."""

    def update(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: Sampled,
        requests: Mapping[str, Request],
        waiting: RequestQueue,
        apply: Callable[[SchedulerOutput, Sampled], Sampled],
    ) -> Sampled:
        """Apply the sampled tokens; return the accepted ones by request id. `apply` is phase 1's update."""


class Release(Protocol):
    """Rules of a release after vLLM 0.13.0, which remember something from step to step. (`electives/releases/`.)"""

    @property
    def is_paused(self) -> bool:
        """Whether a step that plans nothing is no stall."""

    @property
    def has_stand_ins(self) -> Collection[str]:
        """The requests of the step whose drafts nobody has proposed, so that the runner need not compute them."""

    def planned(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """The tokens of the plan count as computed."""


class LayerGroups(Protocol):
    """Phase 12: block tables for several groups of layers. (`electives/windows/`.)"""

    def block_tables(self, request_id: str) -> Sequence[list[int]]:
        """Return the request's table of each group; empty if it holds nothing."""

    def max_held_blocks(self, num_tokens: int, max_num_new_tokens: int) -> int:
        """Return how many blocks a request may hold at once on its way to `num_tokens` tokens."""


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """Phases 1 to 5 and the waiting queue, perhaps with wrappers around them; a restart makes all of them anew.

    `gates` decide who may be admitted. `ahead` is None without phases 7 and 8, and `groups`, phase 12's KV cache
    manager, without windows; `release` is None under the rules of 0.13.0.
    """

    functions: SchedulingFunctions
    kv: KVCacheManager
    prefix_cache: PrefixCache
    preemption: Preemption
    chunks: ChunkPolicy
    waiting: RequestQueue
    gates: Gates
    ahead: PlansAhead | None = None
    groups: LayerGroups | None = None
    release: Release | None = None
