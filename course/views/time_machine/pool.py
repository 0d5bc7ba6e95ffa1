"""The block pool while a step is computed: the holders of each block, and the blocks that moved."""

from dataclasses import dataclass, replace
from functools import lru_cache

from course.palette import color
from course.traces.run_state import RunState
from course.views import svg
from course.views.parts import LEFT, SPAN, Part, heading, legend
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import marks, on_tile
from mini_vllm.core.cdiv import cdiv

GAP = 3
SIDES = (34, 30, 26, 24, 22, 20, 17, 14, 12, 10)
MOST_HIGH = 225
LEGIBLE = 17
NUMBERED = 30
LEGEND = 24
MOST_BANDS = 4


@dataclass(frozen=True)
class Grid:
    """The places of the cells. If there are more blocks than can be seen, a cell shows the first of `per_cell`."""

    side: int
    columns: int
    per_cell: int
    num_cells: int

    @property
    def height(self) -> float:
        return cdiv(self.num_cells, self.columns) * self.side

    def place(self, cell: int) -> tuple[float, float]:
        """Return the upper left corner of a cell."""
        return cell % self.columns * self.side, cell // self.columns * self.side


def grid_for(num_blocks: int) -> Grid:
    """Return the largest cells with which `num_blocks` blocks fit, the null block included."""
    for side in SIDES:
        columns = SPAN // side
        if cdiv(num_blocks, columns) * side <= MOST_HIGH:
            return balanced(Grid(side, columns, 1, num_blocks))
    most = columns * (MOST_HIGH // side)
    per_cell = cdiv(num_blocks, most)
    return balanced(Grid(side, columns, per_cell, cdiv(num_blocks, per_cell)))


def balanced(grid: Grid) -> Grid:
    """Return the grid with its last row as full as possible without another row."""
    return replace(grid, columns=cdiv(grid.num_cells, cdiv(grid.num_cells, grid.columns)))


@dataclass(frozen=True)
class Block:
    """The state of a block as its cell shows it."""

    block_id: int
    holders: tuple[int, ...]
    labels: tuple[str, ...]
    owner: int | None
    taken: bool
    evicted: bool

    @property
    def text(self) -> str:
        """The state of the block as text."""
        if self.block_id == 0:
            return "block 0: the null block, never handed out"
        state = f"still holds content of {self.labels[0]}" if self.owner is not None else ""
        if self.holders:
            state = f"{'held' if len(self.holders) == 1 else 'shared'} by {', '.join(self.labels)}"
        parts = ["free"] * (not self.holders) + [state] * bool(state)
        parts += ["taken in this step"] * self.taken + ["old content lost"] * self.evicted
        return f"block {self.block_id}: {', '.join(parts)}"


def blocks_of(state: RunState) -> list[Block]:
    """Return all blocks in order of their ids."""
    assert state.record is not None
    holders, cached, info = state.holders(), state.cached(), state.info
    taken, evicted = set(state.pool.taken), set(state.record["evicted"])
    blocks = []
    for block_id in range(info.num_blocks + 1):
        held_by = holders.get(block_id, [])
        owner = state.remembered.get(block_id) if not held_by and block_id in cached else None
        named = held_by or ([owner] if owner is not None else [])
        blocks.append(
            Block(
                block_id,
                holders=tuple(map(info.index, held_by)),
                labels=tuple(map(info.label, named)),
                owner=info.index(owner) if owner is not None else None,
                taken=block_id in taken,
                evicted=block_id in evicted,
            )
        )
    return blocks


def pool_part(state: RunState, *, with_legend: bool = True) -> Part:
    """Return the map of the pool, in reading order, and its legend."""
    blocks, grid = blocks_of(state), grid_for(state.info.num_blocks + 1)
    caption = "during the step" if grid.per_cell == 1 else f"1 in {grid.per_cell} shown"
    layers = [heading("pool", "blocks", grid.side / 2 + 3, caption)]
    for cell in range(grid.num_cells):
        block = blocks[cell * grid.per_cell]
        x, y = grid.place(cell)
        name = f"block:{block.block_id}"
        data = {"block": str(block.block_id), "about": name, "home": name}
        layers.append(Layer(f"block-{block.block_id}", draw_block(block, grid.side - GAP), LEFT + x, y, data))
    layers.append(Layer("pool-rows", row_numbers(grid), LEFT))
    if not with_legend:
        return Part(layers, grid.height + 12)
    layers.append(Layer("pool-legend", legend(SAMPLES), LEFT, grid.height + 6))
    return Part(layers, grid.height + LEGEND + 8)


def row_numbers(grid: Grid) -> Markup:
    """Return the first block id of each row, or of every other row, where cells are too small for their own ids."""
    if grid.side >= NUMBERED:
        return Markup("")
    return svg.joined(
        svg.text(-8, y + grid.side / 2 + 2, str(cell * grid.per_cell), class_="mv-small mv-faint mv-end")
        for cell in range(0, grid.num_cells, grid.columns * (1 if grid.side >= 14 else 2))
        for _, y in [grid.place(cell)]
    )


@lru_cache(maxsize=4096)
def draw_block(block: Block, side: float) -> Markup:
    """Return one cell with its tooltip and what a click follows."""
    names = " ".join(map(str, block.holders or ([block.owner] if block.owner is not None else [])))
    return svg.group(svg.tooltip(block.text), *cell(block, side), class_="mv-link", data_request=names or None)


def cell(block: Block, side: float) -> list[Markup]:
    """Return the drawing of one block."""
    if block.block_id == 0:
        drawn = [
            svg.rect(0, 0, side, side, rx=3, class_="mv-panel"),
            svg.line(2, side - 2, side - 2, 2, class_="mv-rule"),
        ]
    elif block.holders:
        drawn = held(block, side)
    elif block.owner is not None:
        drawn = kept(block, side)
    else:
        drawn = [svg.rect(0.5, 0.5, side - 1, side - 1, rx=3, class_="mv-panel")]
    if side + GAP >= NUMBERED:
        drawn.append(block_number(block, side))
    if block.taken:
        drawn.append(svg.rect(-0.5, -0.5, side + 1, side + 1, rx=3, class_="mv-changed"))
    if block.evicted:
        drawn.append(svg.path(f"M0 0H{side * 0.42:.1f}L0 {side * 0.42:.1f}Z", class_="mv-alert"))
    return drawn


def held(block: Block, side: float) -> list[Markup]:
    """Return a held block: the colour of its holder, or of all holders inside a double border."""
    first, (size, y) = block.holders[0], lettering(side)
    if len(block.holders) == 1:
        named = [on_tile(first, side / 2, y, block.labels[0], size)] if side + GAP >= LEGIBLE else []
        return [svg.rect(0, 0, side, side, rx=3, fill=color(first)), marks(first, 0, 0, side, side), *named]
    shown = block.holders[:MOST_BANDS]
    width, inset = side / len(shown), 4 if side + GAP >= LEGIBLE else 2
    bands = [svg.rect(k * width, 0, width, side, fill=color(index)) for k, index in enumerate(shown)]
    outer = svg.rect(0.5, 0.5, side - 1, side - 1, rx=2, class_="mv-line")
    inner = svg.rect(inset, inset, side - 2 * inset, side - 2 * inset, class_="mv-paper mv-shared")
    count = svg.text(side / 2, y, f"{len(block.holders)}x", class_="mv-middle mv-strong", font_size=min(10, size))
    return [*bands, outer, inner, *([count] if side + GAP >= LEGIBLE else [])]


def lettering(side: float) -> tuple[float, float]:
    """Return the font size of a cell's label and its baseline: higher where the block's id stands below."""
    if side + GAP >= NUMBERED:
        return 12, side * 0.46
    size = max(8, side * 0.5)
    return size, side / 2 + size * 0.36


def kept(block: Block, side: float) -> list[Markup]:
    """Return a free block that keeps its content: an outline in the colour of the request that computed it."""
    assert block.owner is not None
    style = f"stroke:{color(block.owner)};stroke-width:2"
    outline = svg.rect(1, 1, side - 2, side - 2, rx=3, class_="mv-panel", style=style, stroke_dasharray="3 2")
    if side + GAP < LEGIBLE:
        return [outline]
    size, y = lettering(side)
    return [outline, svg.text(side / 2, y, block.labels[0], class_="mv-middle mv-faint", font_size=size - 1)]


def block_number(block: Block, side: float) -> Markup:
    """Return the id of a block, small, at its foot."""
    if len(block.holders) == 1:
        return on_tile(block.holders[0], side / 2, side - 5, str(block.block_id), 9)
    name = "null" if block.block_id == 0 else str(block.block_id)
    return svg.text(side / 2, side - 5, name, class_="mv-middle mv-faint", font_size=9)


BARE = Block(9, (), ("",), None, False, False)
HELD = replace(BARE, holders=(0,))
SAMPLES = [
    (svg.joined(cell(block, 11)), name)
    for block, name in (
        (HELD, "held"),
        (replace(BARE, holders=(0, 1)), "shared"),
        (replace(BARE, owner=0), "free, content kept"),
        (BARE, "free"),
        (replace(BARE, block_id=0), "null"),
        (replace(HELD, taken=True), "just taken"),
        (replace(HELD, taken=True, evicted=True), "old content lost"),
    )
]
