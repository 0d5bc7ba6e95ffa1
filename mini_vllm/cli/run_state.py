"""What a run looks like after a step: a fold over its `StepRecord`s, without an engine."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mini_vllm.cli.console import label
from mini_vllm.trace import ScheduledRecord, StepRecord


@dataclass(frozen=True)
class RunInfo:
    """What does not change during a run.

    `titles` and `num_prompt_tokens` have one entry per request id, in order of arrival. `num_blocks` counts
    the blocks that requests can hold, the null block not among them.
    """

    titles: dict[str, str]
    num_prompt_tokens: dict[str, int]
    num_blocks: int
    block_size: int
    token_budget: int

    def index(self, request_id: str) -> int:
        """Return the number of a request, which its color and its label follow from."""
        return list(self.titles).index(request_id)

    def label(self, request_id: str) -> str:
        """Return the letter of a request."""
        return label(self.index(request_id))


@dataclass
class RunState:
    """Everything a picture of the current step needs; `advance` takes the next step.

    `tables` are the block tables as they were while the step was computed. `remembered` says whose
    content a block holds. `texts` is filled by whoever has the texts.
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
    num_query_tokens: int = 0
    num_preemptions: int = 0
    num_evicted: int = 0
    num_recomputed_tokens: int = 0
    num_computed_tokens: int = 0
    chunked: set[str] = field(default_factory=set)
    blocks_in_use: list[int] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    _furthest: dict[str, int] = field(default_factory=dict)

    @property
    def hit_rate(self) -> float:
        """The share of the admitted requests' tokens that the cache supplied, 0 to 1."""
        return self.num_hit_tokens / self.num_query_tokens if self.num_query_tokens else 0.0

    def num_tokens(self, request_id: str) -> int:
        """Return the tokens of a request, prompt and output, after the current step."""
        return self.info.num_prompt_tokens[request_id] + self.num_output_tokens.get(request_id, 0)

    def is_decode(self, share: ScheduledRecord) -> bool:
        """Return whether a share of the current step computes just the newest sampled token.

        The tokens that a resumed request computes a second time are no decode, although it sampled them once.
        """
        is_newest = share["computed"] + 1 == self.num_known[share["id"]]
        was_sampled = share["computed"] >= self.info.num_prompt_tokens[share["id"]]
        return share["kind"] == "running" and share["n"] == 1 and is_newest and was_sampled

    def advance(self, record: StepRecord) -> None:
        """Take in the next step."""
        held_before = self.record["running_after"] if self.record else []
        alive = {request_id for request_id, *_ in held_before} - {victim for victim, *_ in record["preempted"]}
        self.tables = {i: blocks for i, blocks in self.tables.items() if i in alive - set(record["aborted"])}
        self.record = record
        for victim, *_ in record["preempted"]:
            self.computed[victim] = 0
        for share in record["scheduled"]:
            self._take_share(share)
        self.num_known = {i: self.num_tokens(i) for i in self.info.titles}
        for request_id, token_ids in record["output"]:
            self.num_output_tokens[request_id] = self.num_output_tokens.get(request_id, 0) + len(token_ids)
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
        if share["kind"] != "running":
            self.num_query_tokens += self.num_tokens(request_id)
            self.num_hits += bool(share.get("hit"))
            self.num_hit_tokens += share.get("hit", 0)
        if end < self.num_tokens(request_id):
            self.chunked.add(request_id)
        furthest = self._furthest.get(request_id, 0)
        self.num_recomputed_tokens += max(0, min(end, furthest) - share["computed"])
        self._furthest[request_id] = max(end, furthest)

    def holders(self) -> dict[int, list[str]]:
        """Return for each held block who holds it, in order of arrival."""
        holders: dict[int, list[str]] = {}
        for request_id in self.info.titles:
            for block_id in self.tables.get(request_id, []):
                holders.setdefault(block_id, []).append(request_id)
        return holders

    def cached(self) -> set[int]:
        """Return the blocks in the prefix cache."""
        return set(self.record["detail"].get("cached", [])) if self.record else set()

    def status(self, request_id: str) -> str:
        """Return one word for where a request is in the current step."""
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
    """Return the state after all of `records`."""
    state = RunState(info)
    for record in records:
        state.advance(record)
    return state
