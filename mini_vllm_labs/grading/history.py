"""Records a learner's work in `history.jsonl`, in `labs`, with one readable line for each event. The history is never
sent anywhere.

A file that begins with the word `off` is never changed. A teacher's checkout, which contains the solutions, has no
history.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm_labs.grading.results import PhaseGrade

NAME = "history.jsonl"
FILE = CHECKOUT / "labs" / NAME  # saved along with the submitted work
OFF = b"off"
What = Literal["graded", "hint", "missed"]


def note(*events: tuple[What, Mapping[str, object]]) -> None:
    """Append events, each with its time in seconds. Failing to write the file is not an error."""
    if not events or solutions_exist():
        return
    lines = [json.dumps({"at": int(time.time()), "what": what, **facts}) + "\n" for what, facts in events]
    with suppress(OSError), FILE.open("a+b") as file:
        file.seek(0)
        if file.read(len(OFF)) != OFF:
            file.write("".join(lines).encode())


def note_grades(grades: Sequence[PhaseGrade]) -> None:
    """Record whether each started task passes, and its first failing test, whose case names the rule."""
    tasks = [(grade.plan.number, task) for grade in grades for task in grade.tasks if task.status != "not started"]
    events = list[tuple[What, Mapping[str, object]]]()
    for phase, task in tasks:
        rule = {} if task.first_failure is None else {"rule": task.first_failure.id.partition("::")[2]}
        facts = {"task": f"{phase}.{task.plan.number}", "passed": task.status == "passed", **rule}
        events.append(("graded", facts))
    note(*events)
