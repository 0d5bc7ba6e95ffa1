"""State that the rules after 0.13.0 keep during a step and between steps."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from enum import Enum

from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import Clamp, RequestQueue
from mini_vllm.core.request import RUNNING, Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.electives.releases.holders_first import HoldersFirst
from mini_vllm.electives.releases.release_functions import ReleaseFunctions, RoomAsked
from mini_vllm.release_rules import rules_of


class PauseState(Enum):
    """What `schedule()` may plan: everything, no admissions of requests without blocks, or nothing."""

    UNPAUSED = "off"
    PAUSED_NEW = "new"
    PAUSED_ALL = "all"


class StepState:
    """One scheduler's state for the newer rules. All ids and keys are request ids.

    `shares` contains each request's tokens in this step, and `in_flight` contains its tokens in the steps in flight.
    `in_prompt` contains requests that are in the middle of a prompt. `prompts` contains those that still need blocks:
    requests that were admitted with only part of their tokens, or that are loading. `deferred` contains the requests
    that were skipped and are still waiting. `dropped` records how many times a request had been preempted when it was
    reset: tokens from steps planned with fewer preemptions are dropped.
    """

    def __init__(self, config: EngineConfig, functions: ReleaseFunctions) -> None:
        self.config, self.rules = config, rules_of(config.vllm)
        self.functions = functions.under(self.rules)
        self.speculative = config.speculative_config
        self.num_drafts = self.speculative.num_speculative_tokens if self.speculative else 0
        self.num_lookahead_tokens = self.num_drafts if self.speculative and self.speculative.drafter_has_kv_cache else 0
        self.draft_slots = self.speculative.draft_slots if self.speculative else 0
        lookahead = self.speculative.prefill_lookahead if self.speculative and self.rules.prefill_lookahead else 0
        # The K and V of these last tokens are not final, so a block that contains any of them is not cached.
        self.num_unsettled_tokens = max(0, lookahead - 1)
        self.interval: int = config.setting("prefill_schedule_interval")
        self.pacer = self.functions.make_pacer(self.interval)
        self.most_tokens = config.setting("max_num_scheduled_tokens") or config.max_num_batched_tokens
        self.limits_rows = self.draft_slots > 0 or self.most_tokens > config.max_num_batched_tokens
        self.counts_shares = self.limits_rows or self.num_drafts > 0  # the image gates also need the counts
        self.follows_prompts = self.interval > 1 or self.num_drafts > 0
        self.pause_state = PauseState.UNPAUSED
        self.running: list[Request] = []
        self.waiting: RequestQueue = FCFSRequestQueue()
        self.shares: dict[str, int] = {}
        self.admitted: set[str] = set()
        self.padded: set[str] = set()
        self.left: frozenset[str] | None = None  # running requests that the step still serves after a preemption
        self.gone: list[Request] = []  # requests that preempted themselves; they stay RUNNING until phase 1's loop ends
        self.in_prompt: set[str] = set()
        self.prompts: dict[str, Request] = {}
        self.deferred: set[str] = set()
        self.reset: list[Preempted] = []
        self.dropped: dict[str, int] = {}
        self.in_flight: Counter[str] = Counter()
        # Numbers of non-empty steps: those planned, and those whose output has arrived.
        self.num_planned = self.num_done = 0
        self.last_step: dict[str, int] = {}
        self.defers_frees = False
        self.leaving: dict[str, int] = {}  # maps an ended request to the step after which its blocks are freed
        self.free_leaving: Callable[[], None] = lambda: None
        self.budget_kept: int | None = None
        self.holders: HoldersFirst | None = None
        self.drafts_are_used = False
        self.holds_prompts = False
        self.num_groups = 1  # of layers
        # the arguments of phase 14's last `has_room` call, if it returned False
        self.refused_room: RoomAsked | None = None
        self._num_rows = 0
        self.threshold = config.long_prefill_token_threshold
        self.is_adaptive: bool = config.setting("long_prefill_token_threshold_adaptive")

    def start(self, running: list[Request], waiting: RequestQueue) -> None:
        """Start planning a step."""
        self.running, self.waiting = running, waiting
        self.shares, self.admitted, self.padded, self.left, self.gone = {}, set(), set(), None, []
        self._num_rows = 0
        config, num_requests = self.config, len(running) + len(waiting)
        self.threshold = self.functions.threshold_of_step(
            config.long_prefill_token_threshold, num_requests, config.max_num_batched_tokens, self.is_adaptive
        )
        self.drafts_are_used = False
        if self.interval > 1:
            has_decodes = any(request.request_id not in self.in_prompt for request in running)
            self.holds_prompts = self.pacer.holds(has_decodes)

    def can_skip_newer_rules(self, num_free_blocks: int) -> bool:
        """Return whether this step serves the running requests as 0.13.0 would.

        If so, the new rules neither count nor limit the running requests' tokens, and no request is preempted, because
        enough blocks are free.
        """
        # Each request needs at most one more block than its new tokens will fill.
        num_blocks = (len(self.running) + self.most_tokens // self.config.block_size) * self.num_groups
        return not self.counts_shares and not self.holds_prompts and num_blocks <= num_free_blocks

    @property
    def num_rows_left(self) -> int:
        """How many rows of `max_num_batched_tokens` are left for the next request's tokens, excluding its drafter's
        rows."""
        return self.config.max_num_batched_tokens - self._num_rows - self.draft_slots

    @property
    def is_paused(self) -> bool:
        return self.pause_state is not PauseState.UNPAUSED

    @property
    def has_stand_ins(self) -> Collection[str]:
        # With async scheduling, the runner's thread knows which drafts were proposed and reduces the shares itself.
        return () if self.config.async_scheduling else self.padded

    def num_tokens_left(self) -> int:
        """Return how many tokens of the step's budget are left for the next request."""
        return min(self.most_tokens - sum(self.shares.values()), self.num_rows_left)

    def clamp(self, inner: Clamp) -> Clamp:
        """Return phase 1's `clamp` with this step's threshold."""
        if not self.config.long_prefill_token_threshold and not self.speculative:
            return inner

        def clamp(num_new: int, budget: int, threshold: int) -> int:
            return inner(num_new, budget, self.threshold if threshold else 0)

        return clamp

    def takes(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> None:
        """Record that a request has its slots and is part of the plan."""
        request_id = request.request_id
        self.shares[request_id] = num_new_tokens
        self._num_rows += num_new_tokens + self.draft_slots
        num_after = num_computed_tokens + num_new_tokens
        if request.status is not RUNNING:
            self.admitted.add(request_id)
            self.deferred.discard(request_id)
            if num_after < request.num_tokens:
                self.prompts[request_id] = request
        if not self.num_drafts:
            return
        # Drafts are useful unless the step computes only part of a prompt or is certain to sample the last token.
        num_outputs = request.num_output_tokens + 1 + (request.num_output_placeholders > 0)
        is_last = num_outputs >= request.sampling_params.max_tokens
        self.drafts_are_used |= num_after >= request.num_tokens and not is_last

    def leaves(self, request: Request) -> None:
        """Record that a request has lost its slots, because it was preempted or has ended."""
        self.prompts.pop(request.request_id, None)
        num_tokens = self.shares.pop(request.request_id, None)
        if num_tokens is not None:
            self._num_rows -= num_tokens + self.draft_slots

    def pads(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether to pad an admission that computes one token to the size of a decode with drafts."""
        if not self.num_drafts or request.num_tokens - num_computed_tokens != 1:
            return False
        assert self.speculative is not None
        if not self.rules.single_tokens_are_padded or self.speculative.num_speculative_tokens_per_batch_size:
            return False
        if num_computed_tokens + self.num_drafts + 2 > self.config.sizes[0]:
            return False
        if self.num_drafts >= min(self.most_tokens, self.config.max_num_batched_tokens - self.draft_slots):
            return False  # vLLM never admits such a request
        served = [name for name in self.shares if name not in self.admitted]
        return not any(name in self.in_prompt for name in served) and (bool(served) or num_computed_tokens > 0)

    def planned(self, output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        """Record which requests are in the middle of a prompt, now that the plan's tokens count as computed."""
        has_prompt = self.follows_prompts and self._follow_prompts(output, requests)
        for request_id in self.prompts.keys() & output.num_scheduled_tokens.keys():
            if not _is_in_prompt(requests[request_id]):
                del self.prompts[request_id]
        self.num_planned += bool(output.num_scheduled_tokens)
        if self.defers_frees:
            self.last_step |= dict.fromkeys(output.num_scheduled_tokens, self.num_planned)
        if self.interval <= 1:
            return
        looked = not any(one.cause_id for one in output.preempted) and self.pause_state is not PauseState.PAUSED_ALL
        num_left_waiting = len(self.waiting) - len(self.deferred) if looked else None
        self.pacer.planned(sum(output.num_scheduled_tokens.values()), has_prompt, num_left_waiting)

    def _follow_prompts(self, output: SchedulerOutput, requests: Mapping[str, Request]) -> bool:
        """Update `in_prompt`; return whether the step computes part of a prompt."""
        has_prompt = False
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            request = requests[request_id]
            if request_id in self.admitted:
                has_prompt |= request.num_computed_tokens - num_tokens < request.num_tokens - 1
            else:
                has_prompt |= request_id in self.in_prompt
            if _is_in_prompt(request):
                self.in_prompt.add(request_id)
            else:
                self.in_prompt.discard(request_id)
        return has_prompt

    def forget(self, request_id: str) -> None:
        """Drop the state of a request that has ended."""
        for known in (self.in_prompt, self.deferred):
            known.discard(request_id)
        self.dropped.pop(request_id, None)
        self.in_flight.pop(request_id, None)

    def is_in_flight(self, request: Request) -> bool:
        """Return whether a step in flight may still write to the request's blocks."""
        return self.defers_frees and self.last_step.get(request.request_id, 0) > self.num_done


def _is_in_prompt(request: Request) -> bool:
    return request.num_computed_tokens < request.num_tokens + request.num_output_placeholders
