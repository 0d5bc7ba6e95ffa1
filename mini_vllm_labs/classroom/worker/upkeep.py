"""What is left of the requests that the calls of a script were about.

It is counted beside the learner's code, which could falsify the counts: a file that leaks could keep its
points. What a file decides is compared by the judge alone.
"""

from collections.abc import Mapping
from typing import Any

from mini_vllm_labs.classroom.worker.answers import Json
from mini_vllm_labs.classroom.worker.script import Call, ScriptReplay, replay
from mini_vllm_labs.grading.labtest.phase7.counted_text import READS_PER_TOKEN, Work, text_of
from mini_vllm_labs.grading.labtest.work import ROOM, num_entries, num_references, work_of

NUM_SHOWN = 12  # calls whose answers are compared where leaks are counted: what does nothing leaves nothing


def upkeep(files: Mapping[int, Any], phase: int, before: list[Call], calls: list[Call]) -> list[Json]:
    """Return what is left of requests that come and go, in two halves: the second one should leave nothing.

    What the first calls return and change is an answer, too.
    """
    return [left_by(files[phase], before, calls), *replay(files, phase, before[:NUM_SHOWN])]


def make(played: ScriptReplay, target: int, name: str, arguments: bytes) -> None:
    """Make a call and keep its result for later calls, without a description of it."""
    thing, positional, named = played.read(target, arguments)
    played.results.append(getattr(thing, name)(*positional, **named))


def left_by(file: Any, before: list[Call], calls: list[Call]) -> Json:
    """Return the entries and references that calls leave after others before them."""
    played = ScriptReplay(file)
    for call in before:
        make(played, *call)
    objects = [one for one in played.results if type(one).__module__ == file.__name__]
    num_before = num_entries(file, *objects)
    for call in calls:
        make(played, *call)
    num_kept, gone = num_entries(file, *objects) - num_before, list(played.requests.values())
    played.requests.clear()
    played.results.clear()
    return {
        "entries left": num_kept if num_kept > ROOM else 0,
        "references to requests that are gone": num_references(gone),
    }


def reads(files: Mapping[int, Any], texts: list[list[int]]) -> list[Json]:
    """Return the drafts for long texts, and whether each token was looked at a few times at most."""
    return [looked_up(files[7], tokens) for tokens in texts]


def looked_up(file: Any, tokens: list[int]) -> Json:
    work, drafts = Work(), list[Any]()
    text = text_of(tokens, work)
    num_lines = work_of(lambda: drafts.extend(file.propose_by_lookup(text, 4, 1, 3)), str(file.__file__))
    is_quick = work.count + num_lines <= READS_PER_TOKEN * len(tokens)
    return {"drafts": list(map(int, drafts)), "reads each token a few times": is_quick}
