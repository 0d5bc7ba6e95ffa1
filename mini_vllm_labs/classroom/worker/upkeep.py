"""Counts what a script's finished requests leave behind in the learner's objects.

The counts are made in the learner's process, so a file that leaks could falsify them and keep its points. Only the
judge compares a file's decisions.
"""

from collections.abc import Mapping
from typing import Any

from mini_vllm_labs.classroom.worker.answers import Json
from mini_vllm_labs.classroom.worker.script import Call, ScriptReplay, replay
from mini_vllm_labs.grading.labtest.phase7.counted_text import READS_PER_TOKEN, Work, text_of
from mini_vllm_labs.grading.labtest.work import ROOM, num_entries, num_references, work_of

NUM_SHOWN = 12  # calls whose answers are also compared, because code that does nothing leaks nothing


def upkeep(files: Mapping[int, Any], phase: int, before: list[Call], calls: list[Call]) -> list[Json]:
    """Count what requests leave behind in two halves of calls; the second half should leave nothing.

    The results and effects of the first calls are also answers.
    """
    return [left_by(files[phase], before, calls), *replay(files, phase, before[:NUM_SHOWN])]


def make(played: ScriptReplay, target: int, name: str, arguments: bytes) -> None:
    """Make a call and keep its result for later calls, without a description of it."""
    thing, positional, named = played.read(target, arguments)
    played.results.append(getattr(thing, name)(*positional, **named))


def left_by(file: Any, before: list[Call], calls: list[Call]) -> Json:
    """Return the entries and references that `calls` leave behind when made after `before`."""
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
    """Return the drafts for long texts, and whether each token was read only a few times."""
    return [looked_up(files[7], tokens) for tokens in texts]


def looked_up(file: Any, tokens: list[int]) -> Json:
    work, drafts = Work(), list[Any]()
    text = text_of(tokens, work)
    num_lines = work_of(lambda: drafts.extend(file.propose_by_lookup(text, 4, 1, 3)), str(file.__file__))
    is_quick = work.count + num_lines <= READS_PER_TOKEN * len(tokens)
    return {"drafts": list(map(int, drafts)), "reads each token a few times": is_quick}
