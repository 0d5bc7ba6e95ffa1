"""What the calls of a script cost, and what is left of the requests that they were about.

It is counted beside the learner's code, which could falsify the counts: a slow file would keep the points of a fast
one. What a file decides is compared by the judge alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

from classroom.worker.answers import Json
from classroom.worker.script import STATES, Call, ScriptReplay
from course.labtest.phase2.counted_block import CountedBlock, LookCounter
from course.labtest.phase7.counted_text import READS_PER_TOKEN, Work, text_of
from course.labtest.work import ROOM, num_entries, num_references, work_of

World = tuple[list[Call], int]  # a script, and by how much the work of its last call is divided


def upkeep(
    files: Mapping[int, Any],
    phase: int,
    costs: Sequence[Sequence[World]],
    lives: Sequence[tuple[list[Call], list[Call], bool]],
) -> list[Json]:
    """Return whether the last call of a script does more work among many things than among few; then what lives leave.

    The first world of each cost has few things. Of the others the better one counts: a dict that grows copies itself
    now and then. A life is a script of requests that come and go, in two halves: the second one should leave nothing.
    """
    answers: list[Json] = []
    for worlds in costs:
        few, *many = (work_of_last(files[phase], calls) // divisor for calls, divisor in worlds)
        answers.append({"does more among many": min(many) > 2 * few + ROOM})
    return answers + [left_by(files[phase], *life) for life in lives]


def work_of_last(file: Any, calls: list[Call]) -> int:
    """Return the lines, copies and looks at blocks of the last call."""
    looks = LookCounter()

    class Block(CountedBlock):
        def __init__(self, block_id: int, *others: Any, **named: Any) -> None:
            super().__init__(block_id, looks)

    with patch.object(file, "KVCacheBlock", Block, create=True):
        replay, (*setup, (target, name, arguments)) = ScriptReplay(file, Block), calls
        for call in setup:
            make(replay, *call)
        thing, positional, named = replay.read(target, arguments)

        def act() -> None:
            found = getattr(thing, name)  # a property does its work here
            if callable(found):
                found(*positional, **named)

        looks.count = 0
        return work_of(act, str(file.__file__)) + looks.count


def make(replay: ScriptReplay, target: int, name: str, arguments: bytes) -> None:
    """Make a call of which nobody wants to know what it returns."""
    thing, positional, named = replay.read(target, arguments)
    replay.results.append(getattr(thing, name)(*positional, **named))


def left_by(file: Any, before: list[Call], calls: list[Call], are_forgotten: bool) -> Json:
    """Return the entries and references that calls leave after others before them, and the state of the objects.

    Where the requests need not be forgotten at once, references to them are not counted.
    """
    replay = ScriptReplay(file)
    for call in before:
        make(replay, *call)
    objects = [one for one in replay.results if type(one).__module__ == file.__name__]
    num_before = num_entries(file, *objects)
    for call in calls:
        make(replay, *call)
    num_kept, gone = num_entries(file, *objects) - num_before, list(replay.requests.values())
    replay.requests.clear()
    replay.results.clear()
    states = [STATES[type(one).__name__](one, ()) for one in objects if type(one).__name__ in STATES]
    return {
        "entries left": num_kept if num_kept > ROOM else 0,
        "references to requests that are gone": num_references(gone) if are_forgotten else 0,
        "state": replay.describe(states),
    }


def reads(files: Mapping[int, Any], texts: list[list[int]]) -> list[Json]:
    """Return whether a lookup looks at each token of a long text a few times at most."""
    answers: list[Json] = []
    for tokens in texts:
        work = Work()
        text, lookup = text_of(tokens, work), files[7].propose_by_lookup
        num_lines = work_of(lambda: lookup(text, 4, 1, 3), str(files[7].__file__))  # noqa: B023
        answers.append(work.count + num_lines <= READS_PER_TOKEN * len(tokens))
    return answers
