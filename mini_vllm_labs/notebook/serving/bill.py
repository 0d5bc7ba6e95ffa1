"""Computes a request's bill from a server's run so far: steps, tokens, blocks and time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.fresh.jobs import WorkloadRun, output_tokens
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.record_codec import from_json

WAITING, PREFILL, DECODE = "waiting", "prefill", "decode"
ABORT = "abort"
PHASES = ("queued", "prefill", "decode")


@dataclass(frozen=True)
class ServedRun(WorkloadRun):
    """A run, starting at the server's first step.

    `times` contains the seconds that each request spent in each of the `PHASES`, as far as known; it is empty in a
    recorded run. `unfinished` contains the requests that have not finished.
    """

    times: Mapping[str, Sequence[float]] = field(default_factory=dict)
    unfinished: Sequence[str] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any], times: Mapping[str, Sequence[float]], recorded: str) -> "ServedRun":
        recording = from_json(answer["recording"])
        return cls(recording, output_tokens(recording), "", recorded, times, answer["unfinished"])


@dataclass(frozen=True)
class Item:
    """A request's part in one step: the step computed `num_tokens` tokens for it, and left it holding `num_blocks`
    blocks."""

    step: int
    kind: str
    num_tokens: int
    num_blocks: int


@dataclass(frozen=True)
class Bill:
    """The costs of a request. `num_cached_blocks` is the number of its blocks that were in the cache when it was
    admitted.

    `times` contains its seconds in each of the `PHASES`, and is empty if they are unknown. `end` is why the request
    ended, or an empty string.
    """

    label: str
    index: int
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_cached_blocks: int
    items: Sequence[Item]
    times: Sequence[float]
    end: str

    @property
    def num_steps(self) -> int:
        return sum(item.kind != WAITING for item in self.items)

    @property
    def num_waited(self) -> int:
        return len(self.items) - self.num_steps

    @property
    def num_computed(self) -> int:
        return sum(item.num_tokens for item in self.items)

    @property
    def max_held_blocks(self) -> int:
        return max((item.num_blocks for item in self.items), default=0)

    @property
    def block_steps(self) -> int:
        """The number of blocks that the request held, summed over its steps."""
        return sum(item.num_blocks for item in self.items)


def bill_of(run: ServedRun | Notice, label: str) -> Bill | Notice:
    """Return the bill of the request with this label, or `run` itself if it is a `Notice`.

    Raises `ValueError` if the run has no such request.
    """
    return run if isinstance(run, Notice) else bill_in(run, label)


def bill_in(run: ServedRun, label: str) -> Bill:
    """Return the bill of the request with this label. Raises `ValueError` if the run has no such request."""
    info = run.recording.info
    request_id = next((each for each in info.titles if info.label(each) == label), None)
    if request_id is None:
        known = ", ".join(map(info.label, info.titles))
        raise ValueError(f"no request {label!r} has arrived; choose from {known or 'none'}")
    num_prompt_tokens = info.num_prompt_tokens[request_id]
    steps, end = its_steps(run, request_id)
    shares = [share for record in steps for share in record["scheduled"] if share["id"] == request_id]
    num_cached = max((share.get("hit", 0) for share in shares), default=0)
    return Bill(
        label,
        info.index(request_id),
        num_prompt_tokens,
        num_cached,
        len(run.token_ids.get(request_id, ())),
        num_cached // info.block_size,
        [item_of(record, request_id, num_prompt_tokens) for record in steps],
        run.times.get(request_id, ()),
        end,
    )


def its_steps(run: ServedRun, request_id: str) -> tuple[list[StepRecord], str]:
    """Return the steps from a request's arrival to its end, and the reason why it ended."""
    found = list[StepRecord]()
    for record in run.recording.steps:
        if request_id in record["aborted"]:
            return found, ABORT
        if found or request_id in record["added"]:
            found.append(record)
        for name, reason, *_ in record["finished"]:
            if name == request_id:
                return found, str(reason)
    return found, "" if request_id in run.unfinished else ABORT


def item_of(record: StepRecord, request_id: str, num_prompt_tokens: int) -> Item:
    """Classify a step for one request: waiting, prefill or decode."""
    share = next((share for share in record["scheduled"] if share["id"] == request_id), None)
    if share is None:
        return Item(record["step"], WAITING, 0, 0)
    is_next_token = share["kind"] == "running" and share["n"] == 1 and share["computed"] >= num_prompt_tokens
    return Item(record["step"], DECODE if is_next_token else PREFILL, share["n"], len(share["blocks"]))
