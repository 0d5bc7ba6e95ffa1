"""Computes each block's life over a run: spans of steps in which it was held, shared, kept or empty."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.step_axis import AXIS, StepAxis
from mini_vllm_labs.pictures.tiles import striped, tile
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

MIN_HEIGHT, MAX_HEIGHT = 34, 170
MIN_ROW_HEIGHT, MAX_ROW_HEIGHT = 14, 26


@dataclass
class LifeSpan:
    """Steps `first` to `last` with the same holders; without holders, the block may keep `owner`'s content."""

    first: int
    last: int
    holders: tuple[str, ...]
    owner: str | None

    def text(self, info: RunInfo, until: int) -> str:
        last = min(self.last, until)
        steps = f"step {self.first}" if last == self.first else f"steps {self.first}-{last}"
        if len(self.holders) > 1:
            return f"{steps} shared by {', '.join(map(info.label, self.holders))}"
        if self.holders:
            return f"{steps} held by {info.label(self.holders[0])}"
        return f"{steps} free, content of {info.label(self.owner)} kept" if self.owner else f"{steps} free"


@dataclass
class Life:
    """The life of one block over a run. `forgotten` are the steps in which its content was lost."""

    block: int
    spans: list[LifeSpan] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)

    def add(self, step: int, holders: Sequence[str], owner: str | None) -> None:
        last = self.spans[-1] if self.spans else None
        if last and (last.holders, last.owner) == (tuple(holders), owner):
            last.last = step
        else:
            self.spans.append(LifeSpan(step, step, tuple(holders), owner))

    def text(self, info: RunInfo, until: int) -> str:
        """Return the block's spans up to and including step `until` as text."""
        return ", ".join(
            span.text(info, until) + " (old content lost)" * (span.first in self.forgotten)
            for span in self.spans
            if span.first <= until
        )


def lives_of(info: RunInfo, states: Iterable[RunState]) -> dict[int, Life]:
    """Return the lives of all blocks except the null block, based on each block's state while a step was computed."""
    lives = {block: Life(block) for block in range(1, info.num_blocks + 1)}
    for state in states:
        record, holders, cached = record_of(state), state.holders(), state.cached()
        step, forgotten = record["step"], set(record["evicted"])
        for block, life in lives.items():
            held_by = holders.get(block, [])
            life.add(step, held_by, state.remembered.get(block) if block in cached and not held_by else None)
            if block in forgotten:
                life.forgotten.append(step)
    return lives


def busiest(lives: dict[int, Life], most: int) -> list[int]:
    """Return the blocks with the most spans, up to `most` of them, in order of their ids."""
    return sorted(sorted(lives, key=lambda block: (-len(lives[block].spans), block))[:most])


KEPT = f"stroke:{color(0)};stroke-width:2"
BANDS = [svg.rect(0, 0, 14, 5, fill=color(0)), svg.rect(0, 5, 14, 5, fill=color(1))]
SAMPLES = [
    (svg.rect(0, 0, 14, 10, rx=2, fill=color(0)), "held"),
    (svg.group(*BANDS, svg.rect(0.75, 0.75, 12.5, 8.5, class_="mv-line")), "shared"),
    (svg.rect(1, 1, 12, 8, class_="mv-paper", style=KEPT, stroke_dasharray="3 2"), "free, content kept"),
    (svg.line(0, 5, 14, 5, class_="mv-rule"), "free"),
    (svg.path("M2 1h7l-7 7z", class_="mv-alert"), "content lost"),
    (svg.path("M3 2h8l-4 6z", class_="mv-ink"), "found by a hit"),
]


class Strips:
    """Draws the lines of some blocks only once, because only the cursor and the tooltips change afterwards."""

    def __init__(self, info: RunInfo, lives: Sequence[Life], num_steps: int, width: float) -> None:
        self.info, self.lives, self.steps = info, lives, StepAxis.even(num_steps, span_of(width))
        self.row = max(MIN_ROW_HEIGHT, min(MAX_ROW_HEIGHT, MAX_HEIGHT // max(1, len(lives))))
        self.height = max(MIN_HEIGHT, self.row * len(lives))
        self.rows = svg.joined([self._row(place, life) for place, life in enumerate(lives)])

    def part(self, step: int) -> Part:
        high, hidden = self.height, self.info.num_blocks - len(self.lives)
        layers = [
            heading("lives", "lives", 12, f"{len(self.lives)} of {self.info.num_blocks}" if hidden else "of blocks"),
            *[self._head(place, life, step) for place, life in enumerate(self.lives)],
            Layer("life-rows", self.rows, LEFT),
            Layer("life-axis", self.steps.numbers(), LEFT, high + 2),
            Layer("life-cursor", self.steps.cursor(step, high), LEFT),
            Layer("life-columns", self.steps.columns(high, AXIS), LEFT),
            heading("axis", "step", high + 16),
        ]
        return Part(layers, high + AXIS + 10, {"lives of blocks": SAMPLES})

    def _head(self, place: int, life: Life, step: int) -> Layer:
        drawn = svg.group(
            svg.tooltip(f"block {life.block}: {life.text(self.info, step)}"),
            svg.text(LEFT - 8, self.row / 2 + 4, str(life.block), class_="mv-end"),
            class_="mv-link",
        )
        data = {"block": str(life.block), "about": f"block:{life.block}"}
        return Layer(f"life-{life.block}", drawn, 0, place * self.row, data)

    def _row(self, place: int, life: Life) -> svg.Markup:
        parts = [svg.line(0, self.row / 2, self.steps.x(self.steps.num_steps), self.row / 2, class_="mv-rule")]
        parts += [self._span(span) for span in life.spans if span.holders or span.owner]
        for step in life.forgotten:
            parts.append(svg.path(f"M{self.steps.x(step):.1f} 1h6l-6 6z", class_="mv-alert mv-lost"))
        return svg.group(*parts, transform=svg.at(0, place * self.row), data_block=str(life.block), class_="mv-link")

    def _span(self, span: LifeSpan) -> svg.Markup:
        x, high = self.steps.x(span.first), self.row - 2
        width = self.steps.x(span.last + 1) - x
        indices = [self.info.index(i) for i in span.holders or [span.owner] if i is not None]
        names = " ".join(map(str, indices))
        if not span.holders:
            style = f"stroke:{color(indices[0])};stroke-width:2"
            kept = svg.rect(x + 1, 3, width - 2, high - 4, class_="mv-paper", style=style, stroke_dasharray="3 2")
            return svg.group(kept, data_state="kept", data_request=names)
        if len(indices) == 1:
            held = tile(indices[0], self.info.label(span.holders[0]), x, 1, width - 0.5, high)
            return svg.group(held, data_state="held", data_request=names)
        return svg.group(striped(indices, x, 1, width - 0.5, high), data_state="shared", data_request=names)
