"""Draws a request's slots before and after the verdict: computed, reserved for drafts, or rolled back."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.drafts.scene import DraftScene
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.drafts import Verdict

CELLS = (14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)
HIGH, GAP, APART, IDS, MIN_BLOCKS = 14, 5, 17, 15, 5
EARLIER_OPACITY = 0.45
COMPUTED, NOW, DRAFT, TAKEN_BACK, FREE = "computed", "computed in this step", "for a draft", "taken back", "free"


@dataclass(frozen=True)
class StripScale:
    """The size of a slot in px, and the number of blocks that fit side by side."""

    cell: float
    size: int
    max_held_blocks: int
    left: float

    @classmethod
    def fitting(cls, block_size: int, max_held_blocks: int, room: float) -> "StripScale":
        """Return the largest slot size at which all blocks fit, or at least the five newest."""
        left = text_width(f"… {max_held_blocks} ", 12)
        wanted = min(max_held_blocks, MIN_BLOCKS)
        for cell in CELLS:
            width = cell * block_size + GAP
            fit = int((room + GAP) // width)
            if fit >= max_held_blocks:
                return cls(cell, block_size, fit, 0.0)
            fit = int((room - left + GAP) // width)
            if fit >= wanted:
                return cls(cell, block_size, fit, left)
        return cls(CELLS[-1], block_size, max(1, fit), left)

    def x(self, place: int) -> float:
        return self.left + place * (self.cell * self.size + GAP)


def states_of(verdict: Verdict, num_slots: int, *, after: bool) -> list[str]:
    """Return each slot's state during the step's computation or, if `after`, after the verdict."""
    if after and verdict.in_vain:
        return [FREE] * num_slots
    now, drafts = verdict.num_planned - len(verdict.drafts), DRAFT
    if after:
        now, drafts = verdict.num_computed_after if verdict.sampled else verdict.num_planned, TAKEN_BACK
    ends = [(COMPUTED, verdict.num_computed), (NOW, now), (drafts, verdict.num_planned), (FREE, num_slots)]
    return [next(state for state, end in ends if slot < end) for slot in range(num_slots)]


def strips(scene: DraftScene, verdict: Verdict, scale: StripScale) -> svg.Markup:
    """Draw a request's newest blocks twice, as planned and after the verdict, with their ids below."""
    index, size = scene.info.index(verdict.request_id), scale.size
    num_slots = len(verdict.blocks) * size
    first = max(0, len(verdict.blocks) - scale.max_held_blocks)
    drawn = [svg.text(0, HIGH + APART / 2 + 2, f"… {first}", class_="mv-faint")] if first else []
    for after in (False, True):
        states = states_of(verdict, num_slots, after=after)
        for place, block in enumerate(verdict.blocks[first:]):
            inside = states[(first + place) * size : (first + place + 1) * size]
            strip = block_strip(inside, scale, index, block)
            drawn.append(svg.group(strip, transform=svg.at(scale.x(place), APART * after)))
    for place, block in enumerate(verdict.blocks[first:]):
        middle = scale.x(place) + scale.cell * size / 2
        if text_width(str(block), 12) <= scale.cell * size + GAP:
            drawn.append(svg.text(middle, APART + HIGH + IDS - 3, str(block), class_="mv-middle mv-faint"))
    return svg.group(*drawn, data_request=str(index))


def block_strip(states: Sequence[str], scale: StripScale, index: int, block: int) -> svg.Markup:
    drawn, x = [svg.rect(0, 0, scale.cell * scale.size, HIGH, class_="mv-panel")], 0.0
    told = []
    for state, group in groupby(states):
        count = len(list(group))
        drawn.append(slots_of(state, x, count * scale.cell, HIGH, index))
        told.append(f"{counted(count, 'slot')} {state}")
        x += count * scale.cell
    if scale.cell >= 3:  # with less space between them, the lines would hide the slots
        ticks = "".join(f"M{svg.number(k * scale.cell)} 0v{HIGH}" for k in range(1, scale.size))
        drawn.append(svg.path(ticks, style="stroke:var(--mv-paper)", opacity=0.6))
    return svg.group(svg.tooltip(f"block {block}: {', '.join(told)}"), *drawn)


def slots_of(state: str, x: float, width: float, high: float, index: int) -> svg.Markup:
    style = f"stroke:{color(index)};stroke-opacity:1"
    if state in (COMPUTED, NOW):
        faint = EARLIER_OPACITY if state == COMPUTED else None
        drawn = svg.rect(x, 0, width, high, fill=color(index), opacity=faint)
    elif state == DRAFT:
        frame = svg.rect(x + 0.5, 0.5, width - 1, high - 1, style=style, fill="none")
        drawn = svg.joined([svg.hatch(x, 0, width, high, 5, style=style), frame])
    elif state == TAKEN_BACK:
        red: dict[str, svg.Value] = {"class_": "mv-alert-line", "stroke_width": 1.5, "stroke_dasharray": "3 2"}
        drawn = svg.rect(x + 1, 1, width - 2, high - 2, **red)
    else:
        return svg.Markup("")
    return svg.group(drawn, data_slots=state)


SAMPLES = [(slots_of(state, 0, 14, 10, 0), state) for state in (COMPUTED, NOW, DRAFT, TAKEN_BACK)]
