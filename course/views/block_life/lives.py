"""The life of each block over a whole run: spans of steps in which it was held, shared, kept or empty."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from course.traces.run_state import RunInfo, RunState


@dataclass
class Span:
    """Steps `first` to `last` with the same holders; without holders, the block may keep content of `owner`."""

    first: int
    last: int
    holders: tuple[str, ...]
    owner: str | None

    def text(self, info: RunInfo, until: int) -> str:
        """Return the span as text, cut behind step `until`."""
        last = min(self.last, until)
        steps = f"step {self.first}" if last == self.first else f"steps {self.first}-{last}"
        if len(self.holders) > 1:
            return f"{steps} shared by {', '.join(map(info.label, self.holders))}"
        if self.holders:
            return f"{steps} held by {info.label(self.holders[0])}"
        return f"{steps} free, content of {info.label(self.owner)} kept" if self.owner else f"{steps} free"


@dataclass
class Life:
    """One block over a run. `forgotten` are the steps in which its content was lost."""

    block: int
    spans: list[Span] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)

    def add(self, step: int, holders: Sequence[str], owner: str | None) -> None:
        """Extend the last span, or begin a new one."""
        last = self.spans[-1] if self.spans else None
        if last and (last.holders, last.owner) == (tuple(holders), owner):
            last.last = step
        else:
            self.spans.append(Span(step, step, tuple(holders), owner))

    def text(self, info: RunInfo, until: int) -> str:
        """Return the block's spans up to and including step `until` as text."""
        return ", ".join(
            span.text(info, until) + " (old content lost)" * (span.first in self.forgotten)
            for span in self.spans
            if span.first <= until
        )


def lives_of(info: RunInfo, states: Iterable[RunState]) -> dict[int, Life]:
    """Return the lives of all blocks except the null block, as they were while each step was computed."""
    lives = {block: Life(block) for block in range(1, info.num_blocks + 1)}
    for state in states:
        assert state.record is not None
        step, holders, cached = state.record["step"], state.holders(), state.cached()
        forgotten = set(state.record["evicted"])
        for block, life in lives.items():
            held_by = holders.get(block, [])
            kept = block in cached and not held_by
            life.add(step, held_by, state.remembered.get(block) if kept else None)
            if block in forgotten:
                life.forgotten.append(step)
    return lives


def busiest(lives: dict[int, Life], most: int) -> list[int]:
    """Return the blocks with the most spans, at most `most` of them, in order of their ids."""
    ranked = sorted(lives, key=lambda block: (-len(lives[block].spans), block))
    return sorted(ranked[:most])
