"""The block pool while a step is computed: who holds which block, and what moved."""

from dataclasses import dataclass, replace
from functools import lru_cache

from course.palette import color
from course.traces.run_state import RunState
from course.views import svg
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import marks, on_tile
from course.views.time_machine.parts import LEFT, SPAN, Part, heading

GAP = 3
SIDES = (34, 30, 26, 24, 22, 20, 17, 14, 12, 10)
MOST_HIGH = 225
LEGIBLE = 17
NUMBERED = 30
LEGEND = 24
MOST_BANDS = 4


@dataclass(frozen=True)
class Grid:
    """Where the cells are. If there are more blocks than can be seen, a cell shows the first of `per_cell`."""

    side: int
    columns: int
    per_cell: int
    num_cells: int

    @property
    def height(self) -> float:
        return -(-self.num_cells // self.columns) * self.side

    def place(self, cell: int) -> tuple[float, float]:
        """Return the upper left corner of a cell."""
        return cell % self.columns * self.side, cell // self.columns * self.side


def grid_for(num_blocks: int) -> Grid:
    """Return the largest cells that show `num_blocks` blocks, the null block among them."""
    for side in SIDES:
        columns = SPAN // side
        if -(-num_blocks // columns) * side <= MOST_HIGH:
            return balanced(Grid(side, columns, 1, num_blocks))
    most = columns * (MOST_HIGH // side)
    per_cell = -(-num_blocks // most)
    return balanced(Grid(side, columns, per_cell, -(-num_blocks // per_cell)))


def balanced(grid: Grid) -> Grid:
    """Return the grid with as many cells in its last row as can be without another row."""
    return replace(grid, columns=-(-grid.num_cells // -(-grid.num_cells // grid.columns)))


@dataclass(frozen=True)
class Block:
    """What a cell shows of its block."""

    block_id: int
    holders: tuple[int, ...]
    labels: tuple[str, ...]
    owner: int | None
    taken: bool
    evicted: bool

    @property
    def words(self) -> str:
        """The state of the block in words."""
        if self.block_id == 0:
            return "block 0: the null block, never handed out"
        if len(self.holders) > 1:
            told = f"shared by {', '.join(self.labels)}"
        elif self.holders:
            told = f"held by {self.labels[0]}"
        elif self.owner is not None:
            told = f"free, but what {self.labels[0]} left in it can still be found"
        else:
            told = "free"
        moved = ", taken in this step" if self.taken else ""
        lost = ", what it held before is forgotten" if self.evicted else ""
        return f"block {self.block_id}: {told}{moved}{lost}"


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
        data = {"block": str(block.block_id), "about": f"block:{block.block_id}"}
        layers.append(Layer(f"block-{block.block_id}", draw_block(block, grid.side - GAP), LEFT + x, y, data))
    layers.append(Layer("pool-rows", row_numbers(grid), LEFT))
    if not with_legend:
        return Part(layers, grid.height + 12)
    layers.append(Layer("pool-legend", legend(), LEFT, grid.height + 6))
    return Part(layers, grid.height + LEGEND + 8)


def row_numbers(grid: Grid) -> Markup:
    """Return the first block of each row, or of every other one, where cells are too small to say their own."""
    if grid.side >= NUMBERED:
        return Markup("")
    return svg.joined(
        svg.text(-8, y + grid.side / 2 + 2, str(cell * grid.per_cell), class_="mv-small mv-faint mv-end")
        for cell in range(0, grid.num_cells, grid.columns * (1 if grid.side >= 14 else 2))
        for _, y in [grid.place(cell)]
    )


@lru_cache(maxsize=4096)
def draw_block(block: Block, side: float) -> Markup:
    """Return one cell, with what a pointer and a click find out about it."""
    names = " ".join(map(str, block.holders or ([block.owner] if block.owner is not None else [])))
    return svg.group(svg.tooltip(block.words), *cell(block, side), class_="mv-link", data_request=names or None)


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
    """Return a held block: its holder's colour, or the colours of all holders between two borders."""
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
    """Return the font size of a cell's label and its baseline: higher up where the block's id stands below."""
    if side + GAP >= NUMBERED:
        return 12, side * 0.46
    size = max(8, side * 0.5)
    return size, side / 2 + size * 0.36


def kept(block: Block, side: float) -> list[Markup]:
    """Return a free block whose content can still be found: an outline in the colour of who left it."""
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
    words = "null" if block.block_id == 0 else str(block.block_id)
    return svg.text(side / 2, side - 5, words, class_="mv-middle mv-faint", font_size=9)


def legend() -> Markup:
    """Return a sample of each kind of block with its name."""
    bare = Block(9, (), ("",), None, False, False)
    held_by_one = replace(bare, holders=(0,))
    kinds = [
        ("held", held_by_one, 60),
        ("shared", replace(bare, holders=(0, 1)), 70),
        ("free, content kept", replace(bare, owner=0), 126),
        ("free", bare, 56),
        ("null", replace(bare, block_id=0), 54),
        ("just taken", replace(held_by_one, taken=True), 84),
        ("and old content lost", replace(held_by_one, taken=True, evicted=True), 130),
    ]
    x, parts = 0, []
    for name, block, width in kinds:
        parts.append(svg.group(*cell(block, 11), transform=f"translate({x},0)"))
        parts.append(svg.text(x + 17, 10, name, class_="mv-small mv-faint"))
        x += width
    return svg.joined(parts)
