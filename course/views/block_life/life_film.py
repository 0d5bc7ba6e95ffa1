"""The film: four states, the free queue before and after, and the life of every block."""

from collections.abc import Sequence

from course.traces.recording import Recording
from course.views.block_life.cycle import cycle_part
from course.views.block_life.lives import busiest, lives_of
from course.views.block_life.moves import all_moves
from course.views.block_life.queue_rows import queue_part
from course.views.block_life.strips import Strips
from course.views.block_life.words import describe_moves, headline, twin
from course.views.film import Film
from course.views.picture import Picture
from course.views.time_machine.machine import headline_part, sentence_lines, sentence_part, states
from course.views.time_machine.parts import stacked

MOST_STRIPS = 24


def block_life(recording: Recording, blocks: Sequence[int] = ()) -> Film:
    """Return a picture of each step: what moved between the four states, the free queue, the lives of `blocks`.

    Without `blocks` all have a line, or the 24 busiest if there are more. Raises `ValueError` for a block that
    is not there.
    """
    info, num_steps = recording.info, len(recording.steps)
    chosen = chosen_blocks(recording, blocks)
    every = lives_of(info, states(recording))
    lives = [every[block] for block in chosen or busiest(every, MOST_STRIPS)]
    steps, pictures = all_moves(info, states(recording)), []
    strips, kept = Strips(info, lives, max(1, num_steps)), dict[int, str]()
    num_lines = max((len(sentence_lines(describe_moves(info, moves))) for moves in steps), default=1)
    for moves in steps:
        head = headline_part(headline(moves, num_steps), f"{len(moves.holders)} of {info.num_blocks} blocks in use")
        parts = [head, cycle_part(moves), queue_part(info, moves, kept), strips.part(moves.step)]
        whole = stacked([*parts, sentence_part(describe_moves(info, moves), num_lines)])
        pictures.append(
            Picture(
                title=f"Free queue and lives of blocks, {headline(moves, num_steps)}",
                height=whole.height,
                layers=tuple(whole.layers),
                sentence=describe_moves(info, moves),
                twin=twin(info, moves, lives, num_steps),
            )
        )
        kept = moves.kept
    follow = [(f"block:{life.block}", f"block {life.block}") for life in lives]
    follow += [(f"request:{info.index(i)}", f"request {info.label(i)}") for i in info.titles]
    return Film(pictures, follow=follow)


def chosen_blocks(recording: Recording, blocks: Sequence[int]) -> Sequence[int]:
    """Return the blocks in the order given. Raises `ValueError` for one that is not there or comes twice."""
    most = recording.info.num_blocks
    for block in blocks:
        if not 1 <= block <= most:
            raise ValueError(f"blocks has {block}, but there are blocks 1 to {most}")
    if len(set(blocks)) < len(blocks):
        raise ValueError(f"blocks has one of {list(blocks)} twice")
    return blocks
