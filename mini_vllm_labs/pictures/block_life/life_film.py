"""Builds the film of a run's blocks: their states, the free queue before and after a step, and their lives."""

from collections.abc import Iterable, Sequence

from mini_vllm_labs.pictures.block_life.cycle import counts, cycle_part
from mini_vllm_labs.pictures.block_life.lives import Life, Strips, busiest, lives_of
from mini_vllm_labs.pictures.block_life.moves import Moves, all_moves
from mini_vllm_labs.pictures.block_life.queue_rows import queue_part
from mini_vllm_labs.pictures.film import Film, requests_of
from mini_vllm_labs.pictures.parts import WIDTHS, headline_part, most_lines, page
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.pictures.text import facts, ranges, spaced
from mini_vllm_labs.pictures.time_machine.machine import states
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo
from mini_vllm_labs.runs.traces.sentences import events_in

MAX_STRIPS, MAX_DESCRIBED, MAX_BLOCKS = 12, 24, 6


def block_life(recording: Recording, blocks: Sequence[int] = ()) -> Film:
    """Return a film with a picture per step: moves between states, the free queue, and the lives of `blocks`.

    Without `blocks`, every block gets a line, or only the 12 busiest if there are more; the text covers up to 24
    blocks. Raises `ValueError` for a block that does not exist or occurs twice.
    """
    info, num_steps = recording.info, len(recording.steps)
    for block in blocks:
        if not 1 <= block <= info.num_blocks:
            raise ValueError(f"blocks contains {block}, but block ids go from 1 to {info.num_blocks}")
    if len(set(blocks)) < len(blocks):
        raise ValueError(f"blocks must not contain duplicates, got {list(blocks)}")
    every = lives_of(info, states(recording))
    lives, told = ([every[block] for block in blocks or busiest(every, most)] for most in (MAX_STRIPS, MAX_DESCRIBED))
    steps = all_moves(info, states(recording))
    strips = {width: Strips(info, lives, max(1, num_steps), width) for width in WIDTHS}
    drawn = {width: pictures(info, steps, strips[width], told, width) for width in WIDTHS}
    follow = [(f"block:{life.block}", f"block {life.block}") for life in lives]
    return Film.of(drawn, [*follow, *requests_of(info)], events=events_in(recording))


def pictures(
    info: RunInfo, steps: Sequence[Moves], strips: Strips, told: Sequence[Life], width: float
) -> list[Picture]:
    """Draw all steps for pages of a given width; the text describes the lives in `told`."""
    drawn, kept = list[Picture](), dict[int, str]()
    num_lines = most_lines((describe_moves(info, moves) for moves in steps), width)
    for moves in steps:
        headline = f"step {moves.step} of {len(steps) - 1}"
        figures = f"{len(moves.in_use)} of {info.num_blocks} blocks in use, {len(moves.holders)} after the step"
        parts = [headline_part(headline, figures, width), cycle_part(moves, width)]
        parts += [queue_part(info, moves, kept, width), strips.part(moves.step)]
        text = text_alternative(info, moves, told, headline) if width == WIDTH else ""  # the film has only one text
        title = f"Free queue and lives of blocks, {headline}"
        drawn.append(page(title, parts, describe_moves(info, moves), text, width, num_lines))
        kept = moves.kept
    return drawn


def describe_moves(info: RunInfo, moves: Moves) -> str:
    """Describe a step's moves in the order in which they happen."""
    events = [
        ("Given back, last block of a table first", by_request(info, moves.lost, MAX_BLOCKS)),
        ("Found by a hit", by_request(info, moves.found, MAX_BLOCKS)),
        ("Handed out", by_request(info, moves.handed_out, MAX_BLOCKS)),
        ("Content lost", spaced(moves.forgotten, MAX_BLOCKS)),
        ("Given back after the step, last block of a table first", by_request(info, moves.given_back, MAX_BLOCKS)),
    ]
    return " ".join(f"{event}: {blocks}." for event, blocks in events if blocks) or "No block moves."


def by_request(info: RunInfo, items: Iterable[tuple[str, Sequence[int]]], most: int | None = None) -> str:
    return "; ".join(f"{info.label(i)} {spaced(blocks, most) if most else ranges(blocks)}" for i, blocks in items)


def text_alternative(info: RunInfo, moves: Moves, lives: Iterable[Life], headline: str) -> str:
    holders = sorted(moves.holders.items())
    shared = [f"{block} ({spaced(map(info.label, users))})" for block, users in holders if len(users) > 1]
    kept = [f"{block} ({info.label(owner)})" for block, owner in moves.kept.items()]
    return facts(
        [
            (headline, " · ".join(f"{number} {name}" for name, number in counts(moves).items())),
            ("what happened", describe_moves(info, moves)),
            ("free queue before the step, head first", ranges(moves.before)),
            ("handed out", by_request(info, moves.handed_out)),
            ("content lost", ranges(moves.forgotten)),
            ("found by a hit", by_request(info, moves.found)),
            ("found while free", ranges(moves.found_free)),
            ("given back while the step was planned", by_request(info, moves.lost)),
            ("given back after it", by_request(info, moves.given_back)),
            ("left to one holder", ranges(moves.parted)),
            ("free queue after the step, head first", ranges(moves.after)),
            ("held", ranges(block for block, users in holders if len(users) == 1)),
            ("shared", ", ".join(shared)),
            ("free, content kept", ", ".join(kept)),
            ("free, empty", ranges(moves.empty)),
            *[(f"block {life.block}", life.text(info, moves.step)) for life in lives],
        ]
    )
