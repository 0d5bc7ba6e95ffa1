"""Finds out whether a failure is caused by state that the learner's file has kept from earlier tests.

The test is rerun: kept state is the cause if the test passes on a fresh copy of the file and fails again on the file as
it is now. The rerun is repeated, because an answer that depends on chance can look the same in a single run.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from mini_vllm_labs.grading.hints import HINT, RULE
from mini_vllm_labs.grading.labtest.case_table import WHERE_KEPT
from mini_vllm_labs.grading.labtest.failure import Failed
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.runs.sandbox.errors import OutOfTime

KEPT = (
    "Nothing is kept outside an object: alone, on a fresh copy of your file, this test passes. "
    "After the tests before it, it fails:"
)
NUM_REPEATED = 3
UNCLEAR = (NotImplementedError, OutOfTime, MemoryError)


def retold_as_kept(error: BaseException, test: Callable[..., object], arguments: Mapping[str, Any]) -> BaseException:
    """Return the error, with a rule and a question about kept state if that is its cause."""
    name = next((name for name, value in arguments.items() if isinstance(value, ModuleType)), "")
    file = getattr(arguments.get(name), "__file__", None)
    if file is None or isinstance(error, UNCLEAR):
        return error
    for _ in range(NUM_REPEATED):
        fresh = fresh_from(arguments[name].__name__, Path(file))
        if not passes(test, {**arguments, name: fresh}) or passes(test, arguments):
            return error
    if isinstance(error, Failed) and error.parts is not None:
        parts = error.parts
        text = str(error).replace(parts.rule, KEPT, 1).replace(f"{HINT}{parts.hint}", f"{HINT}{WHERE_KEPT}")
        return Failed(text, replace(parts, rule=KEPT, hint=WHERE_KEPT))
    others = [note for note in getattr(error, "__notes__", []) if not note.startswith((RULE, HINT.strip()))]
    error.__notes__ = [f"{RULE}{KEPT}", *others, f"{HINT.strip()} {WHERE_KEPT}"]
    return error


def fresh_from(name: str, file: Path) -> ModuleType:
    """Run a file as a new module with the given name."""
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def passes(test: Callable[..., object], arguments: Mapping[str, Any]) -> bool:
    """Run a graded test from its first case; return whether it passes."""
    if isinstance(answers := arguments.get("answers"), Answers):
        answers.restart()
    with suppress(Exception, Failed, OutOfTime):
        test(**arguments)
        return True
    return False
