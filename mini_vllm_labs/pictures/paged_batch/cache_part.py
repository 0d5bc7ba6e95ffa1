"""Draws the cache slot by slot: the slots that a query reads and writes, and all other tokens."""

from collections.abc import Iterable

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.paged_batch.scene import BatchScene, Query
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.tiles import on_stripes, striped
from mini_vllm_labs.pictures.time_machine.memory import line_numbers
from mini_vllm_labs.pictures.time_machine.shelf import NAME, Shelf
from mini_vllm_labs.pictures.typeset import first_fitting
from mini_vllm_labs.runs.palette import color

MAX_CELL, MAX_LINES = 24, 3
MIN_CELL_NUMBERED, MIN_CELL_SEPARATED = 20, 5
FAINT = 0.3
SAMPLES = [
    (svg.rect(0, 0, 14, 10, fill=color(0)), "read by this query"),
    (svg.rect(0, 0, 14, 10, fill=color(0), opacity=FAINT), "holds a token, not read"),
    (svg.rect(1, 0, 12, 10, rx=2, class_="mv-changed"), "its own K and V go here"),
    (svg.rect(1, 0, 12, 10, class_="mv-alert-line", stroke_width=2.5), "read, but not its token"),
]


class CacheMap:
    """Draws all blocks of the cache. A block is drawn once for each distinct set of slots that a query reads in it."""

    def __init__(self, scene: BatchScene, width: float) -> None:
        self.scene, num_slots = scene, scene.num_blocks * scene.block_size
        self.shelf = Shelf.holding(scene.block_size, num_slots, num_slots, span_of(width), MAX_LINES, MAX_CELL)
        self.num_shown = self.shelf.num_slots // scene.block_size
        self._drawn: dict[tuple[int, frozenset[int], frozenset[int]], svg.Markup] = {}

    def part(self, query: Query) -> Part:
        scene, shelf = self.scene, self.shelf
        reads, strangers = by_block(query.reads, scene.block_size), by_block(query.strangers, scene.block_size)
        layers = [heading("cache", "5 the cache", 12, "slots by block")]
        for block in range(self.num_shown):
            look = (block, reads.get(block, frozenset()), strangers.get(block, frozenset()))
            if look not in self._drawn:
                self._drawn[look] = draw_block(scene, shelf, *look)
            x, y = shelf.place(block * scene.block_size)
            data = {"block": str(block), "about": f"block:{block}"}
            layers.append(Layer(f"cache-{block}", self._drawn[look], LEFT + x, y, data))
        layers.append(Layer("cache-lines", line_numbers(shelf, scene.block_size, first_block=0), LEFT))
        layers.append(Layer("cache-written", written(shelf, query), LEFT))
        return Part(layers, max(shelf.height, 32) + 8, {"the cache": SAMPLES})


def by_block(slots: Iterable[int], block_size: int) -> dict[int, frozenset[int]]:
    found: dict[int, frozenset[int]] = {}
    for slot in slots:
        block = slot // block_size
        found[block] = found.get(block, frozenset()) | {slot}
    return found


def draw_block(
    scene: BatchScene, shelf: Shelf, block: int, reads: frozenset[int], strangers: frozenset[int]
) -> svg.Markup:
    size, cells = scene.block_size, []
    first = block * size
    slots = range(first, first + size)
    held = {slot: scene.held[slot][-1] for slot in slots if slot in scene.held}
    owners = sorted({number for slot in held for number, _ in scene.held[slot]})
    read = [slot for slot in slots if slot in reads]
    content = f"tokens of {', '.join(map(scene.name, owners))} in {len(held)} of {size} slots" if held else "empty"
    content = "the null block" if block == 0 else content
    about = f"block {block}, slots {first} to {first + size - 1}: {content}"
    parts = [
        svg.tooltip(about + (f", {len(read)} of them read" if read else "")),
        svg.rect(0, 0, shelf.cell * size, shelf.high, class_="mv-panel"),
    ]
    for slot in slots:
        x = (slot - first) * shelf.cell
        if slot in held:
            _, position = held[slot]
            look = None if slot in reads else FAINT
            holders = list(dict.fromkeys(number for number, _ in scene.held[slot]))
            parts.append(svg.group(striped(holders, x, 0, shelf.cell, shelf.high), opacity=look))
            middle, low = x + shelf.cell / 2, shelf.high / 2 + 4
            if shelf.cell >= MIN_CELL_NUMBERED and slot in reads:
                cells.append(on_stripes(holders, middle, low, str(position)))
            elif shelf.cell >= MIN_CELL_NUMBERED:
                cells.append(svg.text(middle, low, str(position), class_="mv-middle"))
        if slot in strangers:
            red: dict[str, svg.Value] = {"class_": "mv-alert-line mv-stranger", "stroke_width": 2.5}
            cells.append(svg.rect(x + 1, 1, shelf.cell - 2, shelf.high - 2, **red))
        if shelf.cell >= MIN_CELL_SEPARATED and slot > first:
            cells.append(svg.line(x, 0, x, shelf.high, class_="mv-rule"))
    if shelf.named:
        wide, names = shelf.cell * size, (f"block {block}: {first}-{first + size - 1}", f"block {block}", str(block))
        name = first_fitting(names, wide)
        parts.append(svg.text(wide / 2, shelf.high + NAME - 2, name, class_="mv-middle mv-faint"))
    data = " ".join(map(str, owners)) or None
    return svg.group(*parts, *cells, data_request=data, data_read=" ".join(map(str, read)) or None, class_="mv-link")


def written(shelf: Shelf, query: Query) -> svg.Markup:
    """Draw an outline around the slot that receives the query's K and V."""
    if query.writes is None or not 0 <= query.writes < shelf.num_slots:
        return svg.Markup("")
    x, y = shelf.place(query.writes)
    return svg.rect(x - 1, y - 2, shelf.cell + 2, shelf.high + 4, rx=2, class_="mv-changed mv-written")
