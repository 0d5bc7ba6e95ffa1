"""Draws the memory during a step: each block is a strip of slots that fill up as they are used."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.pictures.tiles import MARK, baseline, marks, on_tile
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.pictures.time_machine.shelf import HIGHS, NAME, Shelf
from mini_vllm_labs.pictures.typeset import first_fitting, text_width
from mini_vllm_labs.runs.palette import color, lap
from mini_vllm_labs.runs.traces.run_state import RunState

MIN_CELL_SEPARATED, LETTER = 3, 12


@dataclass(frozen=True)
class Block:
    """A block's state as shown by its strip; `num_used` of its `size` slots contain K and V.

    `owner` is the request whose content a free block still contains. For content written before the recording began,
    only `is_kept` is known.
    """

    block_id: int
    size: int
    num_used: int
    holders: tuple[int, ...]
    labels: tuple[str, ...]
    owner: int | None = None
    taken: bool = False
    evicted: bool = False
    is_first: bool = False
    is_kept: bool = False

    @property
    def text(self) -> str:
        name = f"{'block' if self.size > 1 else 'slot'} {self.block_id}"
        whose = self.labels[0] if self.owner is not None else "an earlier request"
        state = f"still holds content of {whose}" if self.owner is not None or self.is_kept else ""
        if self.holders:
            state = f"{'held' if len(self.holders) == 1 else 'shared'} by {', '.join(self.labels)}"
            if self.num_used < self.size:
                state += f", {self.num_used} of {self.size} slots used" if self.size > 1 else ", reserved"
        parts = ["free"] * (not self.holders) + [state] * bool(state)
        parts += ["taken in this step"] * self.taken + ["old content lost"] * self.evicted
        return f"{name}: {', '.join(parts)}"


def blocks_of(state: RunState, block_ids: Iterable[int]) -> list[Block]:
    holders, cached, info = state.holders(), state.cached(), state.info
    taken, evicted, used = set(state.pool.taken), set(record_of(state)["evicted"]), state.num_used_slots()
    first = {table[0] for table in state.tables.values() if table}
    blocks = []
    for block_id in block_ids:
        held_by = holders.get(block_id, [])
        is_kept = not held_by and block_id in cached
        owner = state.remembered.get(block_id) if is_kept else None
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
                is_kept=owner is None and is_kept,
            )
        )
    return blocks


# Cached, because a block rarely changes from one step to the next, and a film draws every step.
@lru_cache(maxsize=4096)
def draw_block(block: Block, shelf: Shelf) -> svg.Markup:
    names = " ".join(map(str, block.holders or ([block.owner] if block.owner is not None else [])))
    drawn = strip(block, shelf.cell, shelf.high)
    if shelf.named and block.size > 1:
        middle = shelf.cell * block.size / 2
        drawn.append(svg.text(middle, shelf.high + NAME - 2, str(block.block_id), class_="mv-middle mv-faint"))
    return svg.group(svg.tooltip(block.text), *drawn, data_request=names or None)


def strip(block: Block, cell: float, high: float) -> list[svg.Markup]:
    """Draw a block's slots with the holders' colours and letters: used slots solid, reserved slots hatched."""
    wide = cell * block.size
    ground = svg.rect(0.25, 0.5, wide - 0.5, high - 1, class_="mv-panel")
    drawn = [ground] if not block.holders or block.num_used < block.size else []
    if block.holders:
        drawn += held(block, cell, high)
    elif block.owner is not None or block.is_kept:
        stroke = "var(--mv-rule)" if block.owner is None else color(block.owner)
        style = f"stroke:{stroke};stroke-width:2"
        drawn.append(svg.rect(1, 1, wide - 2, high - 2, class_="mv-panel mv-kept", style=style, stroke_dasharray="3 2"))
    if cell >= MIN_CELL_SEPARATED:
        ends = range(1, max(2, block.size))
        data = "".join(f"M{svg.number(place * cell)} 0v{svg.number(high)}" for place in ends)
        drawn.append(svg.path(data, style="stroke:var(--mv-paper)", opacity=0.6))
    drawn += letters(block, wide, high)
    if block.taken:
        drawn.append(svg.rect(-0.5, -0.5, wide + 1, high + 1, rx=2, class_="mv-changed"))
    if block.evicted:
        drawn.append(svg.path(f"M0 0H{high * 0.42:.1f}L0 {high * 0.42:.1f}Z", class_="mv-alert"))
    return drawn


def held(block: Block, cell: float, high: float) -> list[svg.Markup]:
    wide, used = cell * block.size, cell * block.num_used
    band, drawn = high / len(block.holders), list[svg.Markup]()
    for place, index in enumerate(block.holders):
        y, stroke = place * band, f"stroke:{color(index)}"
        if used:
            drawn.append(svg.path(f"M0 {svg.number(y)}h{svg.number(used)}v{svg.number(band)}H0z", fill=color(index)))
        if used < wide:
            drawn.append(svg.hatch(used, y, wide - used, band, 5, style=f"{stroke};stroke-opacity:1"))
            frame: dict[str, svg.Value] = {"class_": "mv-reserved", "style": stroke, "fill": "none"}
            drawn.append(svg.rect(used + 0.5, y + 0.5, wide - used - 1, band - 1, **frame))
    if len(block.holders) > 1:
        drawn.append(svg.rect(0.75, 0.75, wide - 1.5, high - 1.5, class_="mv-line mv-shared", stroke_width=1.5))
    return [*drawn, marks(block.holders[0], 0, 0, wide, high)]


def letters(block: Block, wide: float, high: float) -> list[svg.Markup]:
    """Draw the names of a block's holders that fit; if blocks are single slots, name only a request's first slot."""
    if high < HIGHS[0] or not block.labels or (block.size == 1 and not block.is_first):
        return []
    room = wide - 3 * block.taken  # the frame around it is 3 px wide
    name = first_fitting((" ".join(block.labels), f"{len(block.labels)}x"), room, bold=True)
    if not name:
        return []
    y, width = high / 2 + 4.3, text_width(name, LETTER, bold=True)
    if len(block.labels) > 1:
        ground = svg.rect((wide - width) / 2, 3, width, high - 6, rx=2, class_="mv-paper")
        return [ground, svg.text(wide / 2, y, name, class_="mv-middle mv-strong")]
    if block.owner is not None:
        return [svg.text(wide / 2, y, name, class_="mv-middle mv-faint")]
    index, used = block.holders[0], max(width, wide * block.num_used / block.size)
    ground = svg.rect((used - width) / 2, 1, width, high - 2 - MARK * bool(lap(index)), fill=color(index))
    return [ground, on_tile(index, used / 2, baseline(index, high), name)]


def sample(**changed: Any) -> svg.Markup:
    """Draw a full block of 14 x 10 px, with some of its fields changed."""
    block = replace(Block(9, 4, 4, (0,), ("",)), **changed)
    return svg.joined(strip(block, 14 / block.size, 10))


SAMPLES = {
    True: [
        (sample(num_used=2), "slots used, reserved"),
        (sample(holders=(0, 1)), "shared"),
        (sample(holders=(), owner=0), "free, content kept"),
    ],
    False: [(sample(size=1, num_used=1), "used"), (sample(size=1, num_used=0), "reserved, not used")],
}
COMMON = [
    (sample(holders=()), "free"),
    (sample(taken=True), "just taken"),
    (sample(taken=True, evicted=True), "content lost"),
]


def memory_part(state: RunState, shelf: Shelf) -> Part:
    info = state.info
    shown = shelf.blocks(info.block_size, info.num_blocks)
    captions = [f"of {info.block_size} slots"] * (info.block_size > 1)
    captions += [f"{len(shown)} shown"] * (len(shown) < info.num_blocks)
    layers = [heading("pool", counted(info.num_blocks, info.unit), 12, *captions or ["during the step"])]
    for block in blocks_of(state, shown):
        x, y = shelf.place((block.block_id - 1) * info.block_size)
        name = f"block:{block.block_id}"
        data = {"block": str(block.block_id), "about": name, "home": name}
        layers.append(Layer(f"block-{block.block_id}", draw_block(block, shelf), LEFT + x, y, data))
    height = max(shelf.height, 18 + 14 * len(captions))
    layers.append(Layer("pool-rows", line_numbers(shelf, info.block_size), LEFT))
    return Part(layers, height + 8, {"memory": [*SAMPLES[info.block_size > 1], *COMMON]})


def line_numbers(shelf: Shelf, block_size: int, first_block: int = 1) -> svg.Markup:
    """Draw the first block id of each line if the blocks are too narrow for their ids."""
    if shelf.named or shelf.height <= 2 * shelf.line:
        return svg.Markup("")
    every = 1 if shelf.line >= 13 else 2  # when the lines are less tall, only every second one has room for a number
    firsts = range(shelf.per_line * shelf.size * 4 * every, shelf.num_slots, shelf.per_line * shelf.size * every)
    drawn = []
    for slot in firsts:
        y = shelf.place(slot)[1] + shelf.high - 2
        drawn.append(svg.text(-6, y, str(slot // block_size + first_block), class_="mv-faint mv-end"))
    return svg.joined(drawn)
