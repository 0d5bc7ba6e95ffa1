"""The memory while a step is computed: each block a strip of its slots, filled as they are used."""

from collections.abc import Iterable

from course.traces.run_state import RunState
from course.views import svg
from course.views.parts import LEFT, Part, heading
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.text import counted
from course.views.time_machine.block_strip import COMMON, SAMPLES, Block, draw_block
from course.views.time_machine.shelf import Shelf


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
                is_kept=owner is None and not held_by and block_id in cached,
            )
        )
    return blocks


def memory_part(state: RunState, shelf: Shelf) -> Part:
    """Return the strips in order of their ids."""
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
    return Part(layers, height + 8, {"memory": [*SAMPLES[info.block_size > 1], *COMMON]})


def line_numbers(shelf: Shelf, block_size: int, first_block: int = 1) -> Markup:
    """Return the first id of each line, where the blocks have no ids of their own."""
    if shelf.named or shelf.height <= 2 * shelf.line:
        return Markup("")
    every = 1 if shelf.line >= 13 else 2
    firsts = range(shelf.per_line * shelf.size * 4 * every, shelf.num_slots, shelf.per_line * shelf.size * every)
    return svg.joined(
        svg.text(
            -6, shelf.place(slot)[1] + shelf.high - 2, str(slot // block_size + first_block), class_="mv-faint mv-end"
        )
        for slot in firsts
    )
