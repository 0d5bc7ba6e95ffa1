"""The cache, slot by slot: what the query reads, where its own K and V go, and the tokens in all other slots."""

from collections.abc import Iterable
from dataclasses import dataclass

from course.palette import color
from course.views import svg
from course.views.paged_batch.scene import Query, Scene
from course.views.parts import LEFT, SPAN, Part, heading, legend
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import on_stripes, striped
from mini_vllm.core.cdiv import cdiv

CELLS = (24, 20, 16, 12, 9, 7, 5, 4, 3, 2, 1.5, 1)
MOST_HIGH = 190
NUMBERED = 15
NAMED = 60
FAINT = 0.3
SAMPLES = [
    (svg.rect(0, 0, 14, 10, fill=color(0)), "read by this query"),
    (svg.rect(0, 0, 14, 10, fill=color(0), opacity=FAINT), "holds a token, not read"),
    (svg.rect(1, 0, 12, 10, rx=2, class_="mv-changed"), "its own K and V go here"),
    (svg.rect(1, 0, 12, 10, class_="mv-alert-line", stroke_width=2.5), "read, but not its token"),
]


@dataclass(frozen=True)
class Shelf:
    """The places of the blocks: `per_line` side by side, `cell` px wide per slot."""

    cell: float
    per_line: int
    strip: float
    high: float
    block_size: int
    num_blocks: int

    @property
    def named(self) -> bool:
        """Whether every block has its number above it."""
        return self.strip >= NAMED

    @property
    def line(self) -> float:
        return self.high + (22 if self.named else 4)

    @property
    def height(self) -> float:
        return cdiv(self.num_blocks, self.per_line) * self.line

    def place(self, slot: int) -> tuple[float, float]:
        """Return the upper left corner of a slot."""
        block, offset = divmod(slot, self.block_size)
        x = block % self.per_line * self.strip + offset * self.cell
        return x, block // self.per_line * self.line + (14 if self.named else 0)


def shelf_for(num_blocks: int, block_size: int) -> Shelf:
    """Return the widest slots with which all blocks fit."""
    for cell in CELLS:
        strip = cell * block_size + max(4.0, min(14.0, cell))
        per_line = max(1, int((SPAN + strip - cell * block_size) // strip))
        shelf = Shelf(cell, per_line, strip, min(20.0, max(6.0, cell)), block_size, num_blocks)
        if shelf.height <= MOST_HIGH and shelf.cell * block_size <= SPAN:
            return shelf
    return shelf


class CacheMap:
    """All blocks of the cache. A block is drawn once for each set of its slots that is read."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.shelf = scene, shelf_for(scene.num_blocks, scene.block_size)
        self._drawn: dict[tuple[int, frozenset[int], frozenset[int]], Markup] = {}

    def part(self, query: Query) -> Part:
        """Return the map with the slots that `query` reads and writes."""
        scene, shelf = self.scene, self.shelf
        reads, strangers = by_block(query.reads, scene.block_size), by_block(scene.strangers(query), scene.block_size)
        layers = [heading("cache", "5 the cache", 12, "slots by block")]
        for block in range(scene.num_blocks):
            look = (block, reads.get(block, frozenset()), strangers.get(block, frozenset()))
            if look not in self._drawn:
                self._drawn[look] = draw_block(scene, shelf, *look)
            x, y = shelf.place(block * scene.block_size)
            data = {"block": str(block), "about": f"block:{block}"}
            layers.append(Layer(f"cache-{block}", self._drawn[look], LEFT + x, y, data))
        layers.append(Layer("cache-lines", line_numbers(shelf), LEFT))
        layers.append(Layer("cache-written", written(scene, shelf, query), LEFT))
        layers.append(Layer("cache-legend", legend(SAMPLES), LEFT, shelf.height + 6))
        return Part(layers, shelf.height + 30)


def by_block(slots: Iterable[int], block_size: int) -> dict[int, frozenset[int]]:
    """Group slots by block."""
    found: dict[int, set[int]] = {}
    for slot in slots:
        found.setdefault(slot // block_size, set()).add(slot)
    return {block: frozenset(inside) for block, inside in found.items()}


def draw_block(scene: Scene, shelf: Shelf, block: int, reads: frozenset[int], strangers: frozenset[int]) -> Markup:
    """Return a block: its number and its slots."""
    size, cells = scene.block_size, []
    first = block * size
    held = {slot: scene.held[slot][-1] for slot in range(first, first + size) if slot in scene.held}
    owners = sorted({number for slot in held for number, _ in scene.held[slot]})
    read = [slot for slot in range(first, first + size) if slot in reads]
    content = f"tokens of {', '.join(map(scene.name, owners))} in {len(held)} of {size} slots" if held else "empty"
    content = "the null block" if block == 0 else content
    about = f"block {block}, slots {first} to {first + size - 1}: {content}"
    parts = [
        svg.tooltip(about + (f", {len(read)} of them read" if read else "")),
        svg.rect(0, 0, shelf.cell * size, shelf.high, class_="mv-panel"),
    ]
    for slot in range(first, first + size):
        x = (slot - first) * shelf.cell
        if slot in held:
            _, position = held[slot]
            look = None if slot in reads else FAINT
            parts.append(svg.group(striped(holders(scene, slot), x, 0, shelf.cell, shelf.high), opacity=look))
            middle, low = x + shelf.cell / 2, shelf.high / 2 + 4
            if shelf.cell >= NUMBERED and slot in reads:
                cells.append(on_stripes(holders(scene, slot), middle, low, str(position), 10.5))
            elif shelf.cell >= NUMBERED:
                cells.append(svg.text(middle, low, str(position), class_="mv-middle mv-small"))
        if slot in strangers:
            red: dict[str, svg.Value] = {"class_": "mv-alert-line mv-stranger", "stroke_width": 2.5}
            cells.append(svg.rect(x + 1, 1, shelf.cell - 2, shelf.high - 2, **red))
        if shelf.cell >= 5 and slot > first:
            cells.append(svg.line(x, 0, x, shelf.high, class_="mv-rule"))
    if shelf.named:
        parts.append(svg.text(0, -4, f"block {block}", class_="mv-small mv-strong"))
        if shelf.strip >= 96:
            span = f"{first}-{first + size - 1}" if size > 1 else str(first)
            parts.append(svg.text(shelf.cell * size, -4, span, class_="mv-small mv-faint mv-end"))
    data = " ".join(map(str, owners)) or None
    return svg.group(*parts, *cells, data_request=data, data_read=" ".join(map(str, read)) or None, class_="mv-link")


def holders(scene: Scene, slot: int) -> list[int]:
    """Return the requests that have a token in a slot: several if they share its block."""
    return list(dict.fromkeys(number for number, _ in scene.held[slot]))


def line_numbers(shelf: Shelf) -> Markup:
    """Return the number of the first block of each line, where blocks have no number of their own."""
    if shelf.named:
        return Markup("")
    return svg.joined(
        svg.text(-8, y + shelf.high / 2 + 4, str(block), class_="mv-small mv-faint mv-end")
        for place, block in enumerate(range(0, shelf.num_blocks, shelf.per_line))
        for y in [shelf.place(block * shelf.block_size)[1]]
        if place % (1 if shelf.line >= 12 else 2) == 0 and y > 24
    )


def written(scene: Scene, shelf: Shelf, query: Query) -> Markup:
    """Return an outline around the slot that the query's own K and V go to."""
    if query.writes is None or not 0 <= query.writes < scene.num_blocks * scene.block_size:
        return Markup("")
    x, y = shelf.place(query.writes)
    return svg.rect(x - 1, y - 2, shelf.cell + 2, shelf.high + 4, rx=2, class_="mv-changed mv-written")
