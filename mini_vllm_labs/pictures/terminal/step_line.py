"""Formats a step as one plain ASCII line, for logs and pipes."""

from collections.abc import Callable
from dataclasses import replace

from mini_vllm.core.step_record import ScheduledRecord
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState


def legend(info: RunInfo) -> str:
    """Return the lines that explain the letters and token counts of `step_line`."""
    free = f"free {info.unit}s (of {info.num_blocks})"
    letters = [f"  {info.label(request_id)}  {title}" for request_id, title in info.titles.items()]
    return "\n".join(
        [
            "Requests:",
            *letters,
            f"Each step: tokens (budget {info.token_budget}), {free}, tokens per request.",
            "A:1 decodes, A:32p computes 32 tokens of its prompt, +96hit found 96 tokens in the prefix cache.",
        ]
    )


def step_line(state: RunState, last_of_run: int | None = None) -> str:
    """Format the current step as one line, or, given `last_of_run`, the run of similar steps that ends there."""
    record, info = state.record, state.info
    if record is None:
        return "step   -"
    number = f"{record['step']}" + (f"-{last_of_run}" if last_of_run is not None else "")
    shares = " ".join(_share(state, share) for share in record["scheduled"]) or "none"
    parts = [f"step {number:<7} {record['total']:3} tok {record['free_after_schedule']:3} free  {shares}"]
    for victim, cause, _ in record["preempted"]:
        parts.append(f"{info.label(victim)} PREEMPTED for {'itself' if victim == cause else info.label(cause)}")
    if record["finished"]:
        parts.append(f"{' '.join(info.label(request_id) for request_id, *_ in record['finished'])} done")
    return " | ".join(parts)


class LineWriter:
    """Writes one line per step, but a single line for consecutive steps in which the same requests only decode."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._first: RunState | None = None
        self._last = 0

    def add(self, state: RunState) -> None:
        """Add the state's current step; it is written once the length of its run is known."""
        if (
            self._first is not None
            and decoding_requests(state)
            and decoding_requests(state) == decoding_requests(self._first)
        ):
            self._last += 1
            return
        self.flush()
        self._first = replace(state)  # a copy, because the next step changes the state
        self._last = state.record["step"] if state.record else 0

    def flush(self) -> None:
        if self._first is not None and self._first.record is not None:
            is_run = self._last > self._first.record["step"]
            self._write(step_line(self._first, self._last if is_run else None))
        self._first = None


def decoding_requests(state: RunState) -> list[str]:
    """Return the requests in a step if all of them only decode, otherwise an empty list."""
    record = state.record
    if record is None or record["preempted"] or record["finished"]:
        return []
    return [s["id"] for s in record["scheduled"]] if all(map(state.is_decode, record["scheduled"])) else []


def _share(state: RunState, share: ScheduledRecord) -> str:
    hit = share.get("hit", 0)
    kind = "" if state.is_decode(share) else "p"
    return f"{state.info.label(share['id'])}:{share['n']}{kind}" + (f"+{hit}hit" if hit else "")
