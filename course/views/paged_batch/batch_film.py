"""The film: one picture for each query token of a step."""

from collections.abc import Sequence

from course.views.film import Film
from course.views.paged_batch.cache_part import CacheMap
from course.views.paged_batch.example import BLOCK_SIZE, example_batch
from course.views.paged_batch.flat_step import RowFunctions
from course.views.paged_batch.mask_part import mask_part
from course.views.paged_batch.row_part import row_part
from course.views.paged_batch.scene import Query, Scene
from course.views.paged_batch.tables_part import tables_part
from course.views.paged_batch.words import describe_query, twin
from course.views.picture import Picture
from course.views.time_machine.machine import headline_part, sentence_lines, sentence_part
from course.views.time_machine.parts import stacked
from mini_vllm.core.step import ScheduledRequest

MOST_REQUESTS = 16
MOST_STEPS = 240


def paged_batch(
    batch: Sequence[ScheduledRequest] | None = None,
    block_size: int = BLOCK_SIZE,
    functions: RowFunctions | None = None,
    num_blocks: int | None = None,
) -> Film:
    """Return a picture of each token of a step: the row, slots, tables, cache and mask, and what the token reads.

    Without `batch` it is the step of phase 6's handout. `functions` is a phase-6 module whose numbers are shown;
    those that differ from the handout's rules are red. Of more than 240 tokens some are left out, never the last
    of a request. `num_blocks` counts the null block. Raises `ValueError` for a batch that cannot be drawn.
    """
    batch = example_batch() if batch is None else batch
    if len(batch) > MOST_REQUESTS:
        raise ValueError(f"the batch has {len(batch)} requests, but a picture holds at most {MOST_REQUESTS}")
    scene = Scene.of(batch, block_size, functions, num_blocks)
    rows = chosen_rows(scene)
    step_of = {row: step for step, row in enumerate(rows)}
    queries = [scene.query(row) for row in rows]
    num_lines = max(len(sentence_lines(describe_query(scene, query))) for query in queries)
    cache = CacheMap(scene)
    pictures = [picture_of(scene, cache, query, step_of, num_lines) for query in queries]
    follow = [(f"request:{number}", f"request {scene.name(number)}") for number in range(len(batch))]
    follow += [(f"block:{block}", f"block {block}") for block in range(scene.num_blocks)]
    return Film(pictures, follow=follow)


def chosen_rows(scene: Scene) -> list[int]:
    """Return the rows that have a picture: all, or some evenly spread ones and every request's last."""
    if scene.num_rows <= MOST_STEPS:
        return list(range(scene.num_rows))
    stride = -(-scene.num_rows // (MOST_STEPS - len(scene.batch)))
    return sorted({*range(0, scene.num_rows, stride), *(end - 1 for end in scene.rules.query_start_loc[1:])})


def picture_of(scene: Scene, cache: CacheMap, query: Query, step_of: dict[int, int], num_lines: int) -> Picture:
    """Return the picture of one query, with room for `num_lines` lines of words."""
    headline = f"row {query.row}: {scene.name(query.number)}, position {query.position}"
    tokens, requests = counted(scene.num_rows, "token"), counted(len(scene.batch), "request")
    counts = f"{tokens} of {requests} · blocks of {scene.block_size}"
    sentence = describe_query(scene, query)
    parts = [
        headline_part(headline, counts),
        row_part(scene, query.row, step_of),
        tables_part(scene, query),
        cache.part(query),
        mask_part(scene, query, step_of),
        sentence_part(sentence, num_lines),
    ]
    whole = stacked(parts)
    return Picture(
        title=f"Slots and paged attention, {headline}",
        height=whole.height,
        layers=tuple(whole.layers),
        sentence=sentence,
        twin=twin(scene, query),
    )


def counted(number: int, thing: str) -> str:
    """Return how many things there are, in words."""
    return f"{number:,} {thing}{'s' * (number != 1)}"
