"""Draws the memory, scaled to fit the page: strips of slots or, for a large pool, a map of blocks."""

from collections.abc import Iterable
from dataclasses import dataclass

from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.pictures.time_machine.memory import memory_part
from mini_vllm_labs.pictures.time_machine.shelf import CELLS, HIGHS, MAX_STRIPS, Shelf, gap_between
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

MIN_STRIP, MIN_HEIGHT = 16, 12
PITCHES = (12, 10, 8, 7, 6, 5, 4, 3)
FREE, HELD = (svg.rect(2, 1, 8, 8, class_="mv-panel"), "free"), (svg.rect(2, 1, 8, 8, class_="mv-ink"), "held")
KEPT = (svg.rect(2, 1, 8, 8, class_="mv-ink", opacity=0.35), "free, content kept")
TAKEN = (svg.line(2, 5, 10, 5, class_="mv-line", stroke_width=3), "just taken")


def pool_part(state: RunState, width: float, height: float) -> Part:
    """Draw the memory, at most about `height` px high."""
    shelf = shelf_for(state.info, width, height)
    if shelf is not None:
        return memory_part(state, shelf)
    return pool_map_part(state, PoolMap.fitting(state.info.num_blocks, span_of(width), height))


def shelf_for(info: RunInfo, width: float, height: float) -> Shelf | None:
    """Return the largest strips that fit the whole pool, or None if they would be too small to read."""
    size, room = info.block_size, span_of(width)
    if size == 1 or info.num_blocks > MAX_STRIPS:
        return None
    for cell in CELLS:
        for high in (high for high in HIGHS if high >= MIN_HEIGHT):
            gap = gap_between(size, cell)
            per_line = int((room + gap) // (cell * size + gap))
            if cell * size < MIN_STRIP or per_line == 0:
                continue
            shelf = Shelf(size, info.num_blocks * size, cell, high, per_line)
            if shelf.height <= height:
                return shelf
    return None


@dataclass(frozen=True)
class PoolMap:
    """A grid of cells of `pitch` px, with `per_line` cells per line; each cell represents `per_cell` blocks."""

    num_blocks: int
    per_cell: int
    pitch: int
    per_line: int

    @classmethod
    def fitting(cls, num_blocks: int, width: float, high: float) -> "PoolMap":
        """Return the largest cells that fit the whole pool, if possible one per block."""
        for pitch in PITCHES:
            per_line = int(width // pitch)
            if cdiv(num_blocks, per_line) * pitch <= high:
                return cls(num_blocks, 1, pitch, per_line)
        num_cells = per_line * max(1, int(high // pitch))
        return cls(num_blocks, cdiv(num_blocks, num_cells), pitch, per_line)

    @property
    def num_cells(self) -> int:
        return cdiv(self.num_blocks, self.per_cell)

    @property
    def height(self) -> int:
        return cdiv(self.num_cells, self.per_line) * self.pitch

    def cells(self, block_ids: Iterable[int]) -> list[int]:
        return sorted({(block - 1) // self.per_cell for block in block_ids})

    def squares(self, cells: Iterable[int], thick: float | None = None, **attributes: svg.Value) -> Markup:
        """Draw cells as squares; each run of cells is a single thick dashed line."""
        size, data = self.pitch - 1, list[str]()
        for first, last in runs(cells, self.per_line):
            line, place = divmod(first, self.per_line)
            y = line * self.pitch + size / 2
            data.append(f"M{place * self.pitch} {svg.number(y)}h{(last - first) * self.pitch + size}")
        dashes = {"stroke_width": thick or size, "stroke_dasharray": f"{size} 1"}
        return svg.path("".join(data), fill="none", **dashes, **attributes) if data else Markup("")


def runs(cells: Iterable[int], per_line: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for cell in cells:
        if found and cell == found[-1][1] + 1 and cell % per_line:
            found[-1] = (found[-1][0], cell)
        else:
            found.append((cell, cell))
    return found


def pool_map_part(state: RunState, pool: PoolMap) -> Part:
    """Draw the whole pool: held blocks in their request's colour, and cached free blocks in a paler colour."""
    info, holders = state.info, state.holders()
    kept = dict[str | None, list[int]]()
    for block in sorted(state.cached() - holders.keys()):
        kept.setdefault(state.remembered.get(block), []).append(block)
    drawn = [
        owned(pool, info, name, table, f"{info.label(name)} holds {counted(len(table), info.unit)}", class_="mv-link")
        for name, table in state.tables.items()
        if table
    ]
    paler = [
        owned(pool, info, name, blocks, f"free, still {kept_content(info, name, len(blocks))}", opacity=0.35)
        for name, blocks in kept.items()
    ]
    taken = pool.squares(pool.cells(state.pool.taken), max(1, pool.pitch / 4), class_="mv-line")
    captions = [f"a square is {pool.per_cell}"] if pool.per_cell > 1 else [f"of {info.block_size} slots"]
    layers = [
        heading("pool", counted(info.num_blocks, info.unit), 12, *captions, f"{len(holders):,} held"),
        Layer("pool-ground", pool.squares(range(pool.num_cells), stroke="var(--mv-panel)"), LEFT),
        Layer("pool-kept", svg.joined(paler), LEFT),
        Layer("pool-held", svg.joined(drawn), LEFT),
        Layer("pool-taken", svg.group(svg.tooltip("just taken"), taken), LEFT),
    ]
    return Part(layers, max(pool.height, 18 + 14 * 2) + 8, {"memory": [HELD, KEPT, FREE, TAKEN]})


def owned(
    pool: PoolMap, info: RunInfo, name: str | None, blocks: Iterable[int], words: str, **attributes: svg.Value
) -> Markup:
    """Draw the squares of some blocks in their request's colour, or in grey if the request is unknown."""
    index = None if name is None else info.index(name)
    squares = pool.squares(pool.cells(blocks), stroke="var(--mv-faint)" if index is None else color(index))
    return svg.group(svg.tooltip(words), squares, data_request=None if index is None else str(index), **attributes)


def kept_content(info: RunInfo, name: str | None, num_blocks: int) -> str:
    """Return a phrase that names the owner of the content in some free blocks."""
    whose = "an earlier request" if name is None else info.label(name)
    return f"{'hold' if num_blocks > 1 else 'holds'} content of {whose}"
