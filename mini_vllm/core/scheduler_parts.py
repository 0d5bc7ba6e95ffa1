"""The parts of a scheduler, and protocols for the parts that are electives."""

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
    """Phases 9 to 11: decide whether a waiting request may be admitted. (`electives/gates/`.)"""

    @property
    def passes_over(self) -> bool:
        """Whether a request may be admitted before an earlier one."""

    @property
    def has_connector(self) -> bool:
        """Whether a connector loads requests' K and V from outside the cache, or sends them."""

    @property
    def num_deferred(self) -> int:
        """How many waiting requests were skipped because something other than free blocks was missing."""

    @property
    def awaits_others(self) -> bool:
        """Whether an empty plan is expected, because a transfer or a grammar compilation is still running outside the
        steps."""

    @property
    def requests_being_sent(self) -> Sequence[str]:
        """The ended requests whose blocks must stay allocated until their K and V have been sent."""

    def take_errors(self) -> dict[str, str]:
        """Return the errors recorded since the last call for requests that can never be admitted, keyed by request
        id."""

    def start_step(self) -> None:
        """Drop the state of the last step."""

    def end_plan(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Finish planning after phase 1, before the plan's tokens count as computed."""

    def break_stall(self, requests: Collection[Request]) -> bool:
        """Try to free resources after an empty plan if nothing else is in progress; return whether any were freed."""

    def advanced(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """React to the plan, now that its tokens count as computed."""

    def without_lost(self, sampled: Sampled, output: KVConnectorOutput | None, running: Sequence[Request]) -> Sampled:
        """Return the sampled tokens, except those of running requests that have lost blocks."""

    def end_step(self, output: KVConnectorOutput | None, *, is_idle: bool, has_sampled: bool) -> None:
        """Finish a step after its tokens have been applied."""


class PlansAhead(Protocol):
    """Phases 7 and 8, which wrap phase 1's plan and update. (`electives/tokens_ahead.py`.)"""

    def after_schedule(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Record the scheduled drafts in the plan, and count placeholders for the tokens to be sampled."""

    def update(
        self,
        scheduler_output: SchedulerOutput,
        sampled_token_ids: Sampled,
        requests: Mapping[str, Request],
        waiting: RequestQueue,
        apply: Callable[[SchedulerOutput, Sampled], Sampled],
    ) -> Sampled:
        """Apply the sampled tokens; return the accepted ones, keyed by request id. `apply` is phase 1's update."""


class Release(Protocol):
    """The state that the rules of a release after vLLM 0.13.0 keep between steps. (`electives/releases/`.)"""

    @property
    def is_paused(self) -> bool:
        """Whether scheduling is paused, so that an empty plan is expected."""

    @property
    def has_stand_ins(self) -> Collection[str]:
        """The step's requests whose drafts are only placeholders, which the runner need not compute."""

    def planned(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Record the plan, now that its tokens count as computed."""


class LayerGroups(Protocol):
    """Phase 12: block tables for several groups of layers. (`electives/windows/`.)"""

    def block_tables(self, request_id: str) -> Sequence[list[int]]:
        """Return the request's table for each group; empty if the request has no blocks."""

    def max_held_blocks(self, num_tokens: int, max_num_new_tokens: int) -> int:
        """Return how many blocks a request may hold at once while it grows to `num_tokens` tokens."""


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """Phases 1 to 5 and the waiting queue, possibly wrapped by layers. A restart creates new parts.

    `gates` decide which requests may be admitted. `ahead` is None without phases 7 and 8. `groups` is phase 12's KV
    cache manager, or None if there are no windows. `release` is None under the rules of 0.13.0.
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
