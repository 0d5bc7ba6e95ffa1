"""The same step in words: what moved, and where every block is."""

from collections.abc import Iterable, Mapping, Sequence

from course.traces.run_state import RunInfo
from course.views.block_life.cycle import counts
from course.views.block_life.lives import Life
from course.views.block_life.moves import Moves
from course.views.time_machine.words import ranges

MOST_BLOCKS = 6
MOST_SENTENCES = 3


def describe_moves(info: RunInfo, moves: Moves) -> str:
    """Return what happened to the blocks: what is forgotten, found, given back and handed out."""
    told = [*forgotten(info, moves), *found(info, moves), *given_back(info, moves), *handed_out(info, moves)]
    return " ".join(told[:MOST_SENTENCES]) or "No block moves."


def forgotten(info: RunInfo, moves: Moves) -> list[str]:
    """Return a sentence for the content that was lost."""
    if not moves.forgotten:
        return []
    takers = dict.fromkeys(info.label(moves.taker[block]) for block in moves.forgotten if block in moves.taker)
    whom = f" to {listed(takers)}" if takers else ""
    return [
        f"{blocks_named(moves.forgotten)} {is_or_are(moves.forgotten)} handed out again{whom}: only now \
what {'it' if len(moves.forgotten) == 1 else 'they'} held is forgotten."
    ]


def found(info: RunInfo, moves: Moves) -> list[str]:
    """Return a sentence for each request that found blocks by their content."""
    told, free = [], set(moves.found_free)
    for who, blocks in moves.found:
        out = [block for block in blocks if block in free]
        where = (
            "" if not out else ", out of the free queue" if len(out) == len(blocks) else f", {len(out)} of them free"
        )
        told.append(f"{info.label(who)} finds {blocks_named(blocks, low=True)}{where}.")
    return told


def given_back(info: RunInfo, moves: Moves) -> list[str]:
    """Return a sentence for each request that gave back blocks."""
    return [
        f"{info.label(who)} gives back {blocks_named(blocks, low=True)} at the tail"
        f"{', last block of its table first' if len(blocks) > 1 else ''}."
        for who, blocks in (*moves.lost, *moves.given_back)
    ]


def handed_out(info: RunInfo, moves: Moves) -> list[str]:
    """Return a sentence for each request that got blocks from the head."""
    return [
        f"{info.label(who)} takes {blocks_named(blocks, low=True)} from the head." for who, blocks in moves.handed_out
    ]


def blocks_named(blocks: Sequence[int], *, low: bool = False) -> str:
    """Return blocks by their ids, a long list cut."""
    word = ("block" if low else "Block") + "s" * (len(blocks) > 1)
    cut = f" and {len(blocks) - MOST_BLOCKS} more" if len(blocks) > MOST_BLOCKS else ""
    return f"{word} {' '.join(map(str, blocks[:MOST_BLOCKS]))}{cut}"


def is_or_are(things: Sequence[object]) -> str:
    return "is" if len(things) == 1 else "are"


def listed(names: Iterable[str]) -> str:
    """Return names as a list in words."""
    every = list(names)
    return " and ".join(filter(None, [", ".join(every[:-1]), every[-1]]))


def with_names(info: RunInfo, blocks: Mapping[int, Sequence[str]]) -> str:
    """Return blocks, each with its requests."""
    return ", ".join(f"{block} ({' '.join(map(info.label, who))})" for block, who in blocks.items()) or "none"


def headline(moves: Moves, num_steps: int) -> str:
    """Return which step it is."""
    return f"step {moves.step} of {num_steps - 1}"


def tally(moves: Moves) -> str:
    """Return the number of blocks in each state after the step."""
    return " · ".join(f"{number} {name}" for name, number in counts(moves).items())


def twin(info: RunInfo, moves: Moves, lives: Iterable[Life], num_steps: int) -> str:
    """Return the step as lines of text."""

    def by_request(items: Sequence[tuple[str, Sequence[int]]]) -> str:
        return "; ".join(f"{info.label(who)} {ranges(blocks)}" for who, blocks in items) or "none"

    held = [block for block, holders in sorted(moves.holders.items()) if len(holders) == 1]
    shared = {block: holders for block, holders in sorted(moves.holders.items()) if len(holders) > 1}
    lines = [
        f"{headline(moves, num_steps)}: {tally(moves)}",
        f"what happened: {describe_moves(info, moves)}",
        f"free queue before the step, head first: {ranges(moves.before) or 'empty'}",
        f"handed out: {by_request(moves.handed_out)}",
        f"content forgotten: {ranges(moves.forgotten) or 'none'}",
        f"found by a hit: {by_request(moves.found)}",
        f"found while free: {ranges(moves.found_free) or 'none'}",
        f"given back while the step was planned: {by_request(moves.lost)}",
        f"given back after it: {by_request(moves.given_back)}",
        f"left to one holder: {ranges(moves.parted) or 'none'}",
        f"free queue after the step, head first: {ranges(moves.after) or 'empty'}",
        f"held: {ranges(held) or 'none'}",
        f"shared: {with_names(info, shared)}",
        f"free, content kept: {with_names(info, {block: [who] for block, who in moves.kept.items()})}",
        f"free, empty: {ranges(moves.empty) or 'none'}",
        *[f"block {life.block}: {life.words(info, moves.step)}" for life in lives],
    ]
    return "\n".join(lines)
