"""The memory while a step is computed: each block a strip of its slots, filled as they are used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from course.palette import color
from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.views import svg
from course.views.parts import LEFT, SPAN, Part, heading, legend
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.text import counted
from course.views.tiles import marks, on_tile
from course.views.typeset import text_width
from mini_vllm.core.cdiv import cdiv

CELLS = (16, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2.5, 2, 1.5, 1, 0.75, 0.5)
HIGHS = (20, 12, 8)
NAME = 14
NAMED = 20
MOST_LINES = 2
MOST_HIGH = 190
MOST_STRIPS = 600
SEPARATED = 3
LETTER = 12


@dataclass(frozen=True)
class Shelf:
    """The places of the first `num_slots` slots: in strips of `size`, `cell` px per slot, `per_line` strips a line.

    Two runs on one shelf show the same memory equally large, whatever the size of their blocks.
    """

    size: int
    num_slots: int
    cell: float
    high: float
    per_line: int

    @classmethod
    def fitting(cls, runs: Sequence[Recording], most_lines: int = MOST_LINES) -> Self:
        """Return the largest strips with which the memory that a run ever uses fits, and a line at least."""
        size, num_used = max(run.info.block_size for run in runs), max(map(num_used_slots, runs))
        num_slots = max(run.info.num_blocks * run.info.block_size for run in runs)
        for high in HIGHS:
            for cell in CELLS:
                gap = gap_between(size, cell)
                shelf = cls(size, num_slots, cell, high, max(1, int((SPAN + gap) // (cell * size + gap))))
                lines = cdiv(cdiv(num_used, size), shelf.per_line)
                is_low = lines <= most_lines if high == HIGHS[0] else lines * shelf.line <= MOST_HIGH
                if is_low and cell * size <= SPAN:
                    return shelf.cut_to(lines)
        return shelf.cut_to(int(MOST_HIGH // shelf.line))

    def cut_to(self, lines: int) -> Self:
        """Return the shelf with so many lines at most."""
        strips = min(max(1, lines) * self.per_line, max(self.per_line, MOST_STRIPS))
        return replace(self, num_slots=min(self.num_slots, strips * self.size))

    @property
    def named(self) -> bool:
        """Whether every block has its id below it."""
        return self.size > 1 and self.cell * self.size >= NAMED

    @property
    def line(self) -> float:
        return self.high + (NAME + 5 if self.named else 4)

    @property
    def height(self) -> float:
        return cdiv(cdiv(self.num_slots, self.size), self.per_line) * self.line

    def place(self, slot: int) -> tuple[float, float]:
        """Return the upper left corner of a slot, counted from 0 without those of the null block."""
        strip, offset = divmod(slot, self.size)
        width = self.cell * self.size + gap_between(self.size, self.cell)
        return strip % self.per_line * width + offset * self.cell, strip // self.per_line * self.line

    def blocks(self, block_size: int, num_blocks: int) -> range:
        """Return the blocks that have a place."""
        return range(1, min(num_blocks, self.num_slots // block_size) + 1)


def gap_between(size: int, cell: float) -> float:
    """Return the space between two strips; slots that form no blocks have none."""
    return 0 if size == 1 else max(2.0, min(5.0, cell))


def num_used_slots(run: Recording) -> int:
    """Return how many slots lie up to the last one that the run ever holds."""
    held = (block for record in run.steps for share in record["scheduled"] for block in share["blocks"])
    return max(held, default=0) * run.info.block_size


@dataclass(frozen=True)
class Block:
    """The state of a block as its strip shows it; `num_used` of its `size` slots hold K and V."""

    block_id: int
    size: int
    num_used: int
    holders: tuple[int, ...]
    labels: tuple[str, ...]
    owner: int | None
    taken: bool
    evicted: bool
    is_first: bool

    @property
    def text(self) -> str:
        """The state of the block as text."""
        name = f"{'block' if self.size > 1 else 'slot'} {self.block_id}"
        state = f"still holds content of {self.labels[0]}" if self.owner is not None else ""
        if self.holders:
            state = f"{'held' if len(self.holders) == 1 else 'shared'} by {', '.join(self.labels)}"
            if self.num_used < self.size:
                state += f", {self.num_used} of {self.size} slots used" if self.size > 1 else ", reserved"
        parts = ["free"] * (not self.holders) + [state] * bool(state)
        parts += ["taken in this step"] * self.taken + ["old content lost"] * self.evicted
        return f"{name}: {', '.join(parts)}"


def blocks_of(state: RunState, block_ids: Iterable[int]) -> list[Block]:
    """Return the state of some blocks."""
    assert state.record is not None
    holders, cached, info = state.holders(), state.cached(), state.info
    taken, evicted, used = set(state.pool.taken), set(state.record["evicted"]), state.num_used_slots()
    first = {table[0] for table in state.tables.values() if table}
    blocks = []
    for block_id in block_ids:
        held_by = holders.get(block_id, [])
        owner = state.remembered.get(block_id) if not held_by and block_id in cached else None
        named = held_by or ([owner] if owner is not None else [])
        blocks.append(
            Block(
                block_id,
                info.block_size,
                used.get(block_id, 0),
                holders=tuple(map(info.index, held_by)),
                labels=tuple(map(info.label, named)),
                owner=info.index(owner) if owner is not None else None,
                taken=block_id in taken,
                evicted=block_id in evicted,
                is_first=block_id in first,
            )
        )
    return blocks


def memory_part(state: RunState, shelf: Shelf, *, with_legend: bool = True) -> Part:
    """Return the strips in order of their ids, and the legend."""
    info = state.info
    shown = shelf.blocks(info.block_size, info.num_blocks)
    num_hidden = info.num_blocks - len(shown)
    captions = [f"of {info.block_size} slots"] * (info.block_size > 1) + [f"{len(shown)} shown"] * (num_hidden > 0)
    layers = [heading("pool", counted(info.num_blocks, info.unit), 12, *captions or ["during the step"])]
    for block in blocks_of(state, shown):
        x, y = shelf.place((block.block_id - 1) * info.block_size)
        name = f"block:{block.block_id}"
        data = {"block": str(block.block_id), "about": name, "home": name}
        layers.append(Layer(f"block-{block.block_id}", draw_block(block, shelf), LEFT + x, y, data))
    height = max(shelf.height, 18 + 14 * len(captions))
    layers.append(Layer("pool-rows", line_numbers(shelf, info.block_size), LEFT))
    if not with_legend:
        return Part(layers, height + 10)
    samples = [*SAMPLES[info.block_size > 1], *COMMON]
    return Part([*layers, Layer("pool-legend", legend(samples), LEFT, height + 2)], height + 26)


def line_numbers(shelf: Shelf, block_size: int) -> Markup:
    """Return the first id of each line, where the blocks have no ids of their own."""
    if shelf.named or shelf.height <= 2 * shelf.line:
        return Markup("")
    every = 1 if shelf.line >= 13 else 2
    firsts = range(shelf.per_line * shelf.size * 4 * every, shelf.num_slots, shelf.per_line * shelf.size * every)
    return svg.joined(
        svg.text(
            -6, shelf.place(slot)[1] + shelf.high - 2, str(slot // block_size + 1), class_="mv-small mv-faint mv-end"
        )
        for slot in firsts
    )


@lru_cache(maxsize=4096)
def draw_block(block: Block, shelf: Shelf) -> Markup:
    """Return one block with its tooltip and what a click follows."""
    names = " ".join(map(str, block.holders or ([block.owner] if block.owner is not None else [])))
    drawn = strip(block, shelf.cell, shelf.high)
    if shelf.named and block.size > 1:
        middle = shelf.cell * block.size / 2
        drawn.append(svg.text(middle, shelf.high + NAME - 2, str(block.block_id), class_="mv-middle mv-small mv-faint"))
    return svg.group(svg.tooltip(block.text), *drawn, data_request=names or None)


def strip(block: Block, cell: float, high: float) -> list[Markup]:
    """Return the slots of a block: used ones full, reserved ones hatched, with the holders' colours and letters."""
    wide = cell * block.size
    ground = svg.rect(0.25, 0.5, wide - 0.5, high - 1, class_="mv-panel")
    drawn = [ground] if not block.holders or block.num_used < block.size else []
    if block.holders:
        drawn += held(block, cell, high)
    elif block.owner is not None:
        style = f"stroke:{color(block.owner)};stroke-width:2"
        drawn.append(svg.rect(1, 1, wide - 2, high - 2, class_="mv-panel mv-kept", style=style, stroke_dasharray="3 2"))
    if cell >= SEPARATED:
        ends = range(1, block.size) if block.size > 1 else range(1, 2)
        data = "".join(f"M{svg.number(place * cell)} 0v{svg.number(high)}" for place in ends)
        drawn.append(svg.path(data, style="stroke:var(--mv-paper)", opacity=0.6))
    drawn += letters(block, wide, high)
    if block.taken:
        drawn.append(svg.rect(-0.5, -0.5, wide + 1, high + 1, rx=2, class_="mv-changed"))
    if block.evicted:
        drawn.append(svg.path(f"M0 0H{high * 0.42:.1f}L0 {high * 0.42:.1f}Z", class_="mv-alert"))
    return drawn


def held(block: Block, cell: float, high: float) -> list[Markup]:
    """Return the used and the reserved slots, in a band for each holder."""
    wide, used = cell * block.size, cell * block.num_used
    band, drawn = high / len(block.holders), list[Markup]()
    for place, index in enumerate(block.holders):
        y = place * band
        if used:
            drawn.append(svg.path(f"M0 {svg.number(y)}h{svg.number(used)}v{svg.number(band)}H0z", fill=color(index)))
        if used < wide:
            drawn.append(svg.hatch(used, y, wide - used, band, 5, style=f"stroke:{color(index)};stroke-opacity:1"))
            frame = f"stroke:{color(index)}"
            drawn.append(
                svg.rect(used + 0.5, y + 0.5, wide - used - 1, band - 1, class_="mv-reserved", style=frame, fill="none")
            )
    if len(block.holders) > 1:
        drawn.append(svg.rect(0.75, 0.75, wide - 1.5, high - 1.5, class_="mv-line mv-shared", stroke_width=1.5))
    return [*drawn, marks(block.holders[0], 0, 0, wide, high)]


def letters(block: Block, wide: float, high: float) -> list[Markup]:
    """Return who holds the block, as far as it fits; of single slots only the first one of a request is named."""
    if high < HIGHS[0] or not block.labels or (block.size == 1 and not block.is_first):
        return []
    names = (" ".join(block.labels), f"{len(block.labels)}x")
    name = next((name for name in names if text_width(name, LETTER, bold=True) <= wide), "")
    if not name:
        return []
    y, width = high / 2 + 4.3, text_width(name, LETTER, bold=True)
    if len(block.labels) > 1:
        ground = svg.rect((wide - width) / 2, 3, width, high - 6, rx=2, class_="mv-paper")
        return [ground, svg.text(wide / 2, y, name, class_="mv-middle mv-strong")]
    if block.owner is not None:
        return [svg.text(wide / 2, y, name, class_="mv-middle mv-faint")]
    used = max(width, wide * block.num_used / block.size)
    ground = svg.rect((used - width) / 2, 1, width, high - 2, fill=color(block.holders[0]))
    return [ground, on_tile(block.holders[0], used / 2, y, name, LETTER)]


def sample(block: Block) -> Markup:
    """Return a block of 14 x 10 px."""
    return svg.joined(strip(block, 14 / block.size, 10))


FULL = Block(9, 4, 4, (0,), ("",), None, False, False, False)
SAMPLES = {
    True: [
        (sample(replace(FULL, num_used=2)), "slots used, reserved"),
        (sample(replace(FULL, holders=(0, 1))), "shared"),
        (sample(replace(FULL, holders=(), owner=0)), "free, content kept"),
    ],
    False: [
        (sample(replace(FULL, size=1, num_used=1)), "used"),
        (sample(replace(FULL, size=1, num_used=0)), "reserved, not used"),
    ],
}
COMMON = [
    (sample(replace(FULL, holders=())), "free"),
    (sample(replace(FULL, taken=True)), "just taken"),
    (sample(replace(FULL, taken=True, evicted=True)), "content lost"),
]
