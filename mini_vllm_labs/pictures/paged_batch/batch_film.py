"""Builds the film of a step, with one picture for each query token."""

from collections.abc import Sequence

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.paged_batch.cache_part import CacheMap
from mini_vllm_labs.pictures.paged_batch.flat_step import RowFunctions
from mini_vllm_labs.pictures.paged_batch.mask_part import Mask, mask_part
from mini_vllm_labs.pictures.paged_batch.row_part import page_of, row_part
from mini_vllm_labs.pictures.paged_batch.scene import BatchScene, Query
from mini_vllm_labs.pictures.paged_batch.tables_part import TableColumns, all_lines, tables_part
from mini_vllm_labs.pictures.parts import WIDTHS, headline_part, most_lines, page
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.pictures.text import counted, facts, ranges, spaced

BLOCK_SIZE = 4
MAX_REQUESTS, MAX_NUMBERS = 16, 6
# A film that showed every row of a long prompt would be too large for a notebook.
MAX_STEPS = 240


def example_batch() -> list[ScheduledRequest]:
    """Return the step of phase 6's handout: a chunk, a decode and a whole prompt in blocks of 4."""
    return [
        share("A", 100, 10, 4, 4, [5, 2, 8], samples=False),
        share("B", 200, 7, 6, 1, [3, 6]),
        share("C", 300, 3, 0, 3, [7]),
    ]


def share(
    name: str, first: int, known: int, computed: int, scheduled: int, block_ids: list[int], *, samples: bool = True
) -> ScheduledRequest:
    """Return one request's share of a step, built from token counts; token ids start at `first`."""
    return ScheduledRequest(Request(name, list(range(first, first + known))), computed, scheduled, block_ids, samples)


def paged_batch(
    batch: Sequence[ScheduledRequest] | None = None, block_size: int = BLOCK_SIZE, functions: RowFunctions | None = None
) -> Film:
    """Return a film with one picture per token of a step: row, slots, tables, cache, mask, and slots read.

    Without `batch`, it shows the step of phase 6's handout. `functions` is a phase-6 module whose numbers are shown;
    numbers that break the handout's rules are shown in red. If a step has more than 240 tokens, some are omitted, but
    each request's last token is always shown. Raises `ValueError` for a batch that cannot be drawn.
    """
    batch = example_batch() if batch is None else batch
    if len(batch) > MAX_REQUESTS:
        raise ValueError(f"the batch has {len(batch)} requests, but a picture can show at most {MAX_REQUESTS}")
    scene = BatchScene.of(batch, block_size, functions)
    rows = chosen_rows(scene)
    step_of = {row: step for step, row in enumerate(rows)}
    queries = [(query, describe_query(scene, query)) for query in map(scene.query, rows)]
    drawn = {width: pictures(scene, queries, step_of, width) for width in WIDTHS}
    follow = [(f"request:{number}", f"request {scene.name(number)}") for number in range(len(batch))]
    follow += [(f"block:{block}", f"block {block}") for block in range(scene.num_blocks)]
    return Film.of(drawn, follow, word="row")


def pictures(
    scene: BatchScene, queries: Sequence[tuple[Query, str]], step_of: dict[int, int], width: float
) -> list[Picture]:
    """Draw the queries, each with its sentence, for a given page width."""
    drawn, cache, mask = list[Picture](), CacheMap(scene, width), Mask(scene, step_of, width)
    columns = TableColumns.within(width)
    lines, num_lines = all_lines(scene, columns), most_lines((sentence for _, sentence in queries), width)
    tokens, requests = counted(scene.num_rows, "token"), counted(len(scene.batch), "request")
    for query, sentence in queries:
        headline = f"row {query.row}: {scene.name(query.number)}, position {query.position}"
        parts = [
            headline_part(headline, f"{tokens} of {requests} · blocks of {scene.block_size}", width),
            row_part(scene, query.row, step_of, width),
            tables_part(scene, query, columns, lines),
            cache.part(query),
            mask_part(mask, query),
        ]
        text = text_alternative(scene, query, sentence) if width == WIDTH else ""
        title = f"Slots and paged attention, {headline}"
        drawn.append(page(title, parts, sentence, text, width, num_lines))
    return drawn


def chosen_rows(scene: BatchScene) -> list[int]:
    """Return the rows that get a picture: all rows, or evenly spaced rows and each request's last row."""
    if scene.num_rows <= MAX_STEPS:
        return list(range(scene.num_rows))
    stride = cdiv(scene.num_rows, MAX_STEPS - len(scene.batch))
    return sorted({*range(0, scene.num_rows, stride), *(end - 1 for end in scene.rules.query_start_loc[1:])})


def describe_query(scene: BatchScene, query: Query) -> str:
    """Describe where a query's K and V go and which slots it reads, listing wrong numbers first."""
    name, missing = scene.name(query.number), query.reads.count(-1)
    parts = [fault.text for fault in sorted(scene.faults, key=lambda fault: fault.place != (query.row,))[:1]]
    parts += [f"{counted(len(scene.faults) - 1, 'other wrong number')}."] * (len(scene.faults) > 1)
    parts += [f"Row {query.row}: the token at position {query.position} of {name}."]
    parts += [f"K and V go to {slot_text(query.writes, scene.block_size)}."]
    blocks = dict.fromkeys(slot // scene.block_size for slot in query.reads if slot >= 0)
    parts += [f"Reads {counted(len(query.reads), 'token')} of {name}, blocks {spaced(blocks, MAX_NUMBERS) or 'none'}."]
    parts += [f"The table has no block for {missing} of them."] * (missing > 0)
    if strangers := [slot for slot in query.strangers if slot >= 0]:
        parts.append(f"Slots with an unexpected token: {spaced(strangers, MAX_NUMBERS)}.")
    return " ".join([*parts, "Logits needed." if query.needs_logits else "No logits needed."])


def slot_text(slot: int | None, block_size: int) -> str:
    return "no slot" if slot is None else f"slot {slot} (block {slot // block_size}, offset {slot % block_size})"


def text_alternative(scene: BatchScene, query: Query, sentence: str) -> str:
    """Return the query, the part of the row around it, and all tables as lines of text."""
    shown, step = page_of(scene, query.row), scene.step
    rows = slice(shown.start, shown.stop)
    lines: list[tuple[str, object]] = [
        (f"row {query.row} of 0-{scene.num_rows - 1}", f"{scene.name(query.number)}, position {query.position}"),
        ("what happens", sentence),
        ("written", slot_text(query.writes, scene.block_size)),
        ("read", ranges(query.reads)),
        ("read, but not its token", ranges(query.strangers)),
        ("mask", f"sees {query.position + 1} of {sum(scene.seq_lens)} keys"),
        ("rows shown", f"{shown.start}-{shown.stop - 1}"),
        ("input_ids", spaced(step.input_ids[rows])),
        ("positions", spaced(step.positions[rows])),
        ("slot_mapping", spaced(step.slot_mapping[rows])),
        ("logits rows", spaced(row for row in step.logits_rows if row in shown)),
        ("query_start_loc", spaced(step.query_start_loc)),
    ]
    for number, share in enumerate(scene.batch):
        table = spaced(step.block_tables[number]) if number < len(step.block_tables) else ""
        row = f"block_ids {spaced(share.block_ids)}, table {table or 'missing'}, seq_len {scene.seq_lens[number]}"
        lines.append((scene.name(number), row))
    return facts([*lines, *[("wrong", fault.text) for fault in scene.faults]])
