"""A trace with everything needed to draw it, made from an engine, a file, or bare step records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from mini_vllm import LLM
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.runs.parity.scenario import Scenario
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState, fold
from mini_vllm_labs.runs.traces.trace_file import open_trace

if TYPE_CHECKING:
    from mini_vllm_labs.runs.traces.lines import Lines


@dataclass(frozen=True, repr=False)
class Recording:
    """All steps of a run, starting with the first, and the run's constants.

    `stalled` means that no later step could schedule anything. `lines` contains the phases' lines that ran, if they
    were recorded.

    Raises `ValueError` if the steps are not numbered 0, 1, 2, ...
    """

    info: RunInfo
    steps: Sequence[StepRecord]
    stalled: bool = False
    lines: "Lines | None" = None

    def __post_init__(self) -> None:
        require_whole(self.steps)

    def __repr__(self) -> str:
        return f"Recording({len(self.info.titles)} requests, {len(self.steps)} steps)"

    @classmethod
    def of(cls, source: LLM | LLMEngine, titles: Mapping[str, str] | None = None) -> Self:
        """Return a recording of the run so far; the engine must have been built with `record=True`.

        `titles` maps request ids to their questions. Raises `ValueError` if the engine does not record.
        """
        engine = source if isinstance(source, LLMEngine) else source.engine
        scheduler, steps = engine.scheduler, list(engine.recorder.steps)
        known = {
            request_id: len(state.request.prompt_token_ids) for request_id, state in engine.processor.states.items()
        }
        info = RunInfo(
            titles=titles_of(steps) | dict(titles or {}),
            num_prompt_tokens=prompt_lengths(steps) | known,
            num_blocks=scheduler.kv.num_usable_blocks,
            block_size=scheduler.kv.block_size,
            token_budget=scheduler.max_num_batched_tokens,
            max_num_seqs=scheduler.max_num_seqs,
        )
        return cls(info, steps)

    def with_priorities(self, priorities: Mapping[str, int]) -> Self:
        """Return the recording with the requests' priorities, or without priorities if all are equal."""
        differ = len(set(priorities.values())) > 1
        return replace(self, info=replace(self.info, priorities=dict(priorities) if differ else {}))

    def with_stuck_step(self) -> Self:
        """Append an empty step to a stalled recording; return any other recording unchanged."""
        if not self.stalled or not self.steps:
            return self
        last = self.steps[-1]
        step = last["step"] + 1
        lists = ("added", "aborted", "scheduled", "preempted", "evicted", "finished_sent", "aborted_before_update")
        empty: dict[str, Any] = {key: [] for key in (*lists, "output", "finished")}
        none: dict[str, Any] = {"total": 0, "sampled": {}, "drafts_given": {}, "update_of": step}
        free = {"free_after_schedule": last["free_after_update"], "detail": {**last["detail"], "stuck": True}}
        stuck = {**last, "step": step, **empty, **none, **free}
        return replace(self, steps=[*self.steps, cast(StepRecord, stuck)], stalled=False)

    @classmethod
    def read(cls, path: Path | str, name: str | None = None) -> Self:
        """Read a trace from a file; `name` selects one of several recorded scenarios.

        Raises `ValueError` if the file does not contain a trace, and `OSError` if it cannot be read.
        """
        found = open_trace(Path(path), name)
        if isinstance(found, Scenario):
            return cls.of_scenario(found)
        steps, token_budget = found
        return cls.from_steps(steps, token_budget)

    @classmethod
    def of_scenario(cls, scenario: Scenario) -> Self:
        steps: list[StepRecord] = scenario.line["trace"]["steps"]
        config = scenario.config()
        lengths = {i: described["prompt_len"] for i, described in scenario.line["requests"].items()}
        info = RunInfo(
            titles=titles_of(steps),
            num_prompt_tokens=prompt_lengths(steps) | lengths,
            num_blocks=scenario.line["trace"]["usable_blocks"],
            block_size=config.block_size,
            token_budget=config.max_num_batched_tokens,
            max_num_seqs=config.max_num_seqs,
            prefix_caching=config.enable_prefix_caching,
        )
        return cls(info, steps)

    @classmethod
    def from_steps(cls, steps: Sequence[StepRecord], token_budget: int | None = None) -> Self:
        """Make a recording from bare records, and infer the pool, the block size and the prompts from them.

        Raises `ValueError` if `steps` is empty.
        """
        require_whole(steps)
        if not steps:
            raise ValueError("a trace needs at least one step")
        shares = [share for record in steps for share in record["scheduled"]]
        num_free = steps[0]["free_after_schedule"]
        held = {block for share in steps[0]["scheduled"] for block in share["blocks"]}
        info = RunInfo(
            titles=titles_of(steps),
            num_prompt_tokens=prompt_lengths(steps),
            num_blocks=num_free + len(held),
            block_size=likely_block_size(steps),
            token_budget=token_budget or max(record["total"] for record in steps) or 1,
            prefix_caching=any(record["evicted"] for record in steps) or any(share.get("hit") for share in shares),
        )
        return cls(info, steps)

    def state(self, step: int) -> RunState:
        return fold(self.info, self.steps[: step + 1])


def require_whole(steps: Sequence[StepRecord]) -> None:
    """Raise `ValueError` unless the steps are numbered 0, 1, 2, ..., because drawing a step needs all steps before
    it."""
    for place, record in enumerate(steps):
        if record["step"] != place:
            raise ValueError(
                f"record {place} is step {record['step']}, but a trace must contain every step, starting at 0"
            )


def titles_of(steps: Sequence[StepRecord]) -> dict[str, str]:
    """Map each request id to a title (the id itself), in order of arrival."""
    return {request_id: request_id for record in steps for request_id in record["added"]}


def prompt_lengths(steps: Sequence[StepRecord]) -> dict[str, int]:
    """Return each request's number of prompt tokens, or 0 if it never ran.

    A request that was not running at the end of any step computed its whole prompt in its first step.
    """
    sampled, least, known = dict.fromkeys(titles_of(steps), 0), dict[str, int](), dict[str, int]()
    for record in steps:
        for share in record["scheduled"]:
            least.setdefault(share["id"], share["computed"] + share["n"])
        for request_id, token_ids in record["output"]:
            sampled[request_id] += len(token_ids)
        for request_id, num_tokens, *_ in record["running_after"]:
            known.setdefault(request_id, num_tokens - sampled[request_id])
    return {request_id: known.get(request_id, least.get(request_id, 0)) for request_id in sampled}


def likely_block_size(steps: Sequence[StepRecord]) -> int:
    """Return a block size consistent with all block tables, preferably a power of two."""
    shares = [share for record in steps for share in record["scheduled"] if share["blocks"]]
    # A block table keeps the blocks of rejected drafts. A drafter with a KV cache also needs slots beyond its last
    # draft.
    beyond = max((len(share.get("drafts", [])) for share in shares), default=0)
    ends = [(share["computed"] + share["n"], len(share["blocks"])) for share in shares]
    least = max((cdiv(end, num_blocks) for end, num_blocks in ends), default=1)
    most = min((cdiv(end + beyond, num_blocks - 1) - 1 for end, num_blocks in ends if num_blocks > 1), default=1 << 30)
    power = 1 << (least - 1).bit_length()
    return power if power <= most else least
