"""Judges situations in a fork of this process, so that Python and torch start only once for a whole catalogue."""

import json
import os
import resource
import sys
from collections.abc import Sequence
from types import ModuleType

from mini_vllm_labs.classroom.judge.play import compare_answers
from mini_vllm_labs.classroom.judge.question import JudgeQuestion, packed
from mini_vllm_labs.classroom.worker.answers import checked
from mini_vllm_labs.classroom.worker.inside import answer, unpacked
from mini_vllm_labs.runs.starter_status import lab_folder

CPU_SECONDS = 60  # a correct answer may be slow, for example if it computes attention token by token
ALL_RIGHT = 99  # a file may exit the process with status 0


def first_wrong(phase: int, text: str, situations: Sequence[JudgeQuestion]) -> int | None:
    """Run situations on a file in a new process; return the index of the first wrong one, or None.

    A file that exits the process, or uses up its time, fails the first situation.
    """
    child = os.fork()
    if child == 0:
        status = 0
        try:
            status = _play(phase, text, situations)
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == ALL_RIGHT else max(code, 1) - 1


def _play(phase: int, text: str, situations: Sequence[JudgeQuestion]) -> int:
    """Return the number of the first wrong situation, counted from 1, or `ALL_RIGHT`."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    for number in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    for name in [name for name in sys.modules if name.startswith("solutions.")]:
        del sys.modules[name]
    sys.modules["solutions"] = None  # type: ignore[assignment]
    file = ModuleType(f"labs.{lab_folder(phase)}.starter")
    sys.modules[file.__name__], file.__file__ = file, "starter.py"
    exec(compile(text, "starter.py", "exec"), file.__dict__)
    for number, asked in enumerate(situations, start=1):
        calls = [unpacked({"arguments": call}) for call in asked.calls]
        arguments = packed((phase, calls)) if calls else asked.arguments
        found = answer({phase: file}, {"driver": asked.driver, "arguments": arguments})
        answers = checked(json.loads(json.dumps(found.get("answer"))))
        if not isinstance(answers, list) or compare_answers(asked, answers).status != "right":
            return number
    return ALL_RIGHT
