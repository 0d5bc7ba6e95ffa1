"""The memory in whatever room there is: strips of slots, or a map where the pool is too large for them."""

from course.traces.run_state import RunState
from course.views.parts import Part, span_of
from course.views.time_machine.memory import memory_part
from course.views.time_machine.shelf import CELLS, HIGHS, MAX_STRIPS, Shelf, gap_between
from serving.live.drawing.live_info import LiveInfo
from serving.live.drawing.pool_map import PoolMap, pool_map_part

MIN_STRIP, MIN_HEIGHT = 16, 12


def shelf_for(info: LiveInfo, width: float, height: float) -> Shelf | None:
    """Return the largest strips with which the whole pool fits, None if they would be too small to read."""
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


def pool_part(state: RunState, info: LiveInfo, width: float, height: float) -> Part:
    """Return the memory, in about `height` px or less."""
    shelf = shelf_for(info, width, height)
    if shelf is not None:
        return memory_part(state, shelf)
    return pool_map_part(state, PoolMap.fitting(info.num_blocks, span_of(width), height))
