"""Computes a run's state after a step with a fold over its `StepRecord`s, without an engine."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from mini_vllm.core.step_record import ScheduledRecord, StepRecord
from mini_vllm_labs.runs.palette import label
from mini_vllm_labs.runs.traces.pool_state import PoolState


@dataclass(frozen=True)
class RunInfo:
    """The constants of a run.

    `titles` and `num_prompt_tokens` have one entry per request id, in order of arrival. `num_blocks` counts the blocks
    that requests can hold, excluding the null block. `priorities` is empty if all priorities are equal; `max_num_seqs`
    is 0 if unknown.
    """

    titles: dict[str, str]
    num_prompt_tokens: dict[str, int]
    num_blocks: int
    block_size: int
    token_budget: int
    prefix_caching: bool = True
    priorities: dict[str, int] = field(default_factory=dict)
    max_num_seqs: int = 0

    @property
    def unit(self) -> str:
        """The unit of memory: "block", or "slot" if a block is a single slot."""
        return "block" if self.block_size > 1 else "slot"

    def index(self, request_id: str) -> int:
        """Return a request's number, which determines its colour and label."""
        return self._indices[request_id]

    def label(self, request_id: str) -> str:
        """Return the request's own id if all ids are short names such as `r3`, otherwise its letter."""
        return request_id if self._has_short_names else label(self.index(request_id))

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {request_id: index for index, request_id in enumerate(self.titles)}

    @cached_property
    def _has_short_names(self) -> bool:
        return all(map(is_short_name, self.titles))


def is_short_name(request_id: str) -> bool:
    """Return whether an id fits in a block in a picture and does not look like a number."""
    return len(request_id) <= 3 and request_id[:1].isalpha()


@dataclass
class RunState:
    """The state needed to draw the current step; `advance` applies the next step.

    `tables` contains the block tables as they were while the step was computed. `remembered` maps a block to the
    request whose content it contains. `texts` is filled in by callers that know the texts.
    """

    info: RunInfo
    record: StepRecord | None = None
    tables: dict[str, list[int]] = field(default_factory=dict)
    remembered: dict[int, str] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    num_output_tokens: dict[str, int] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    num_known: dict[str, int] = field(default_factory=dict)
    num_hits: int = 0
    num_hit_tokens: int = 0
    num_preemptions: int = 0
    num_evicted: int = 0
    num_recomputed_tokens: int = 0
    num_computed_tokens: int = 0
    chunked: set[str] = field(default_factory=set)
    blocks_in_use: list[int] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    pool: PoolState = field(init=False)
    _num_first_tokens: int = 0
    _num_first_hit_tokens: int = 0
    _furthest: dict[str, int] = field(default_factory=dict)
    _rejected: dict[int, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool = PoolState(self.info.num_blocks, self.info.block_size, self.info.prefix_caching)

    @property
    def hit_rate(self) -> float:
        """The fraction (0 to 1) of requests' tokens found in the prefix cache at their first admission."""
        return self._num_first_hit_tokens / max(1, self._num_first_tokens)

    def num_tokens(self, request_id: str) -> int:
        """Return the number of a request's tokens, prompt and output, after the current step."""
        return self.info.num_prompt_tokens[request_id] + self.num_output_tokens.get(request_id, 0)

    def num_reached(self, request_id: str) -> int:
        """Return how many of a request's known tokens have been computed, including steps in flight."""
        return min(self.computed.get(request_id, 0), self.num_tokens(request_id))

    def is_decode(self, share: ScheduledRecord) -> bool:
        """Return whether a share computes only the newest sampled token and the drafts after it.

        A resumed request that recomputes sampled tokens does not count as decoding.
        """
        # A plan made ahead computes a token that is not yet known.
        is_newest = share["computed"] + 1 >= self.num_known[share["id"]]
        was_sampled = share["computed"] >= self.info.num_prompt_tokens[share["id"]]
        is_one = share["n"] - len(share.get("drafts", [])) == 1
        return share["kind"] == "running" and is_one and is_newest and was_sampled

    def advance(self, record: StepRecord) -> None:
        tables = self.tables_after_update()
        # Must come first, because the pool needs the state as it was before the step.
        self.pool.advance(record, tables, self.computed, {i: self.num_tokens(i) for i in self.info.titles})
        freed = {victim for victim, *_ in record["preempted"]} | set(record["aborted"])
        self.tables = {i: blocks for i, blocks in tables.items() if i not in freed}
        self.record = record
        for victim, *_ in record["preempted"]:
            self.computed[victim] = 0
        for share in record["scheduled"]:
            self._take_share(share)
        self.num_known = {i: self.num_tokens(i) for i in self.info.titles}
        for request_id, token_ids in record["output"]:
            self.num_output_tokens[request_id] = self.num_output_tokens.get(request_id, 0) + len(token_ids)
        self._roll_back(record)
        self.finished |= {request_id: reason or "" for request_id, reason, _ in record["finished"]}
        self.finished |= dict.fromkeys([*record["aborted"], *record["aborted_before_update"]], "abort")
        self.num_preemptions += len(record["preempted"])
        self.num_evicted += len(record["evicted"])
        self.num_computed_tokens += record["total"]
        self.blocks_in_use.append(self.info.num_blocks - record["free_after_schedule"])

    def _take_share(self, share: ScheduledRecord) -> None:
        request_id, end = share["id"], share["computed"] + share["n"]
        self.tables[request_id] = share["blocks"]
        self.remembered |= dict.fromkeys(share["new_blocks"], request_id)
        self.computed[request_id] = end
        # a preempted request hits blocks that it computed itself; vLLM also counts those separately
        if share["kind"] == "new":
            self._num_first_tokens += self.num_tokens(request_id)
            self._num_first_hit_tokens += share.get("hit", 0)
        if share["kind"] != "running":
            self.num_hits += bool(share.get("hit"))
            self.num_hit_tokens += share.get("hit", 0)
        if end < self.num_tokens(request_id):
            self.chunked.add(request_id)
        furthest = self._furthest.get(request_id, 0)
        self.num_recomputed_tokens += max(0, min(end, furthest) - share["computed"])
        self._furthest[request_id] = max(end, furthest)

    def _roll_back(self, record: StepRecord) -> None:
        """Subtract rejected drafts from the computed tokens, for the step whose results this step applied."""
        self._rejected[record["step"]] = {
            share["id"]: len(share["drafts"]) - max(0, len(record["sampled"].get(share["id"], ())) - 1)
            for share in record["scheduled"]
            if share.get("drafts")
        }
        rejected = {} if record["update_of"] is None else self._rejected.pop(record["update_of"], {})
        for request_id, _, num_computed, *_ in record["running_after"]:
            self.computed[request_id] = num_computed
            if request_id in self._furthest:
                self._furthest[request_id] -= rejected.get(request_id, 0)
        for request_id, *_ in record["finished"]:
            self.computed[request_id] = min(self.computed.get(request_id, 0), self.num_tokens(request_id))

    def tables_after_update(self) -> dict[str, list[int]]:
        """Return the block tables at the end of the step, without finished requests."""
        if self.record is None:
            return dict(self.tables)
        running = {request_id for request_id, *_ in self.record["running_after"]}
        return {request_id: blocks for request_id, blocks in self.tables.items() if request_id in running}

    def num_used_slots(self) -> dict[int, int]:
        """Return how many slots of each held block contain K and V after the step."""
        used: dict[int, int] = {}
        for request_id, table in self.tables.items():
            for place, block_id in enumerate(table):
                reach = self.computed.get(request_id, 0) - place * self.info.block_size
                used[block_id] = max(used.get(block_id, 0), min(self.info.block_size, max(0, reach)))
        return used

    def ref_counts(self) -> dict[int, int]:
        """Return each held block's number of holders while the step was computed."""
        return {block_id: len(holders) for block_id, holders in self.holders().items()}

    def holders(self) -> dict[int, list[str]]:
        """Return the requests that hold each block, in order of arrival."""
        holders: dict[int, list[str]] = {}
        for request_id in self.info.titles:
            for block_id in self.tables.get(request_id, []):
                holders.setdefault(block_id, []).append(request_id)
        return holders

    def cached(self) -> set[int]:
        """Return the blocks in the prefix cache at the end of the step."""
        return self.pool.cached

    def status(self, request_id: str) -> str:
        """Return a request's status in the current step, in one word."""
        record = self.record
        if record is None:
            return "waiting"
        if any(victim == request_id for victim, *_ in record["preempted"]):
            return "preempted"
        for share in record["scheduled"]:
            if share["id"] == request_id:
                return "decode" if self.is_decode(share) else "prefill"
        if request_id in self.finished:
            return "done"
        return "waiting" if request_id in record["waiting_after"] else "skipped"


def fold(info: RunInfo, records: Iterable[StepRecord]) -> RunState:
    state = RunState(info)
    for record in records:
        state.advance(record)
    return state
