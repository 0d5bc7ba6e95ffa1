"""A block as a strip of its slots, filled as they are used."""

from dataclasses import dataclass, replace
from functools import lru_cache

from course.palette import color
from course.views import svg
from course.views.svg import Markup
from course.views.tiles import marks, on_tile
from course.views.time_machine.shelf import HIGHS, NAME, Shelf
from course.views.typeset import text_width

SEPARATED = 3
LETTER = 12


@dataclass(frozen=True)
class Block:
    """The state of a block as its strip shows it; `num_used` of its `size` slots hold K and V.

    `owner` is whose content a free block still holds; of content from before the recording only `is_kept` is known.
    """

    block_id: int
    size: int
    num_used: int
    holders: tuple[int, ...]
    labels: tuple[str, ...]
    owner: int | None
    taken: bool
    evicted: bool
    is_first: bool
    is_kept: bool = False

    @property
    def text(self) -> str:
        """The state of the block as text."""
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


@lru_cache(maxsize=4096)
def draw_block(block: Block, shelf: Shelf) -> Markup:
    """Return one block with its tooltip and what a click follows."""
    names = " ".join(map(str, block.holders or ([block.owner] if block.owner is not None else [])))
    drawn = strip(block, shelf.cell, shelf.high)
    if shelf.named and block.size > 1:
        middle = shelf.cell * block.size / 2
        drawn.append(svg.text(middle, shelf.high + NAME - 2, str(block.block_id), class_="mv-middle mv-faint"))
    return svg.group(svg.tooltip(block.text), *drawn, data_request=names or None)


def strip(block: Block, cell: float, high: float) -> list[Markup]:
    """Return the slots of a block: used ones full, reserved ones hatched, with the holders' colours and letters."""
    wide = cell * block.size
    ground = svg.rect(0.25, 0.5, wide - 0.5, high - 1, class_="mv-panel")
    drawn = [ground] if not block.holders or block.num_used < block.size else []
    if block.holders:
        drawn += held(block, cell, high)
    elif block.owner is not None or block.is_kept:
        stroke = "var(--mv-rule)" if block.owner is None else color(block.owner)
        style = f"stroke:{stroke};stroke-width:2"
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
