"""One query token in words: where it comes from, where its K and V go, what it reads."""

from collections.abc import Sequence

from course.views.paged_batch.row_part import page_of
from course.views.paged_batch.scene import Query, Scene
from course.views.time_machine.words import ranges


def place_words(slot: int | None, block_size: int) -> str:
    """Return a slot with its block and its place there."""
    if slot is None:
        return "no slot"
    block, offset = divmod(slot, block_size)
    return f"slot {slot} (block {block}, place {offset})"


def describe_query(scene: Scene, query: Query) -> str:
    """Return what is worth knowing about a query: what is wrong first."""
    name, size = scene.name(query.number), scene.block_size
    told = [fault.words for fault in sorted(scene.faults, key=lambda fault: fault.place != (query.row,))[:1]]
    if len(scene.faults) > 1:
        told.append(f"{len(scene.faults) - 1} more {'entry differs' if len(scene.faults) == 2 else 'entries differ'}.")
    told.append(f"Row {query.row} is the token at position {query.position} of {name}.")
    told.append(f"Its K and V go to {place_words(query.writes, size)}.")
    count = f"{len(query.reads)} token{'s' * (len(query.reads) > 1)}"
    blocks = list(dict.fromkeys(slot // size for slot in query.reads if slot >= 0))
    where = f" in block{'s' * (len(blocks) > 1)} {few(blocks)}" if blocks else ", but its table is empty"
    told.append(f"It reads {count} of {name}{where}.")
    if -1 in query.reads:
        told.append(f"The table has no block for {query.reads.count(-1)} of them.")
    if strangers := [slot for slot in scene.strangers(query) if slot >= 0]:
        told.append(f"What it should read is not in slot{'s' * (len(strangers) > 1)} {few(strangers)}.")
    told.append("Logits are computed behind it." if query.needs_logits else "It needs no logits.")
    return " ".join(told)


def few(numbers: Sequence[int], most: int = 6) -> str:
    """Return numbers, a long list cut."""
    rest = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return " ".join(map(str, numbers[:most])) + rest


def twin(scene: Scene, query: Query) -> str:
    """Return the query, the part of the row around it, and all tables as lines of text."""
    page, step, size = page_of(scene, query.row), scene.step, scene.block_size
    rows = slice(page.start, page.stop)
    lines = [
        f"row {query.row} of 0-{scene.num_rows - 1}: {scene.name(query.number)}, position {query.position}",
        f"what happens: {describe_query(scene, query)}",
        f"written: {place_words(query.writes, size)}",
        f"read: {ranges(query.reads)}",
        f"read, but not its token: {ranges(scene.strangers(query)) or 'none'}",
        f"mask: sees {query.position + 1} of {sum(scene.seq_lens)} keys",
        f"rows shown: {page.start}-{page.stop - 1}",
        f"input_ids: {listed(step.input_ids[rows])}",
        f"positions: {listed(step.positions[rows])}",
        f"slot_mapping: {listed(step.slot_mapping[rows])}",
        f"logits rows: {listed([row for row in step.logits_rows if row in page]) or 'none'}",
        f"query_start_loc: {listed(step.query_start_loc)}",
    ]
    for number, share in enumerate(scene.batch):
        table = step.block_tables[number] if number < len(step.block_tables) else []
        lines.append(
            f"{scene.name(number)}: block_ids {listed(share.block_ids)}, table {listed(table) or 'missing'}, "
            f"seq_len {scene.seq_lens[number]}"
        )
    return "\n".join([*lines, *[f"wrong: {fault.words}" for fault in scene.faults]])


def listed(numbers: Sequence[int]) -> str:
    """Return numbers with spaces between."""
    return " ".join(map(str, numbers))
