"""The process that runs a learner's tests: it imports modules once, opens the known mistakes, and forks for each
run."""

import gc
import importlib
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.grading.known_mistakes import KnownMistakes, inner_key, keys_of, unlocked
from mini_vllm_labs.grading.own_tests.forked import Ended, in_processes
from mini_vllm_labs.grading.own_tests.one_run import install, run
from mini_vllm_labs.grading.worker import LIMITS
from mini_vllm_labs.runs.sandbox.channel import Message, take_stdio
from mini_vllm_labs.runs.sandbox.limits import limit_resources

ENDED_EARLY = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR)
KEY_SECONDS = 20.0
SECONDS = 4.0  # for one run of the file; a mistake that causes an endless loop uses up all of this time
# limits for a correct implementation, so that all runs finish within 20 s on two cores
MOST_CPU_SECONDS, MOST_SECONDS = 0.6, 3.0


def serve() -> None:
    """Answer one order, with the table's rows or the problem."""
    channel = take_stdio()
    order = channel.receive()
    limit_resources(LIMITS)
    try:
        channel.send(judged(order))
    except ValueError as error:
        channel.send({"problem": str(error)})


def judged(order: Mapping[str, Any]) -> Message:
    """Run the tests in an order on all implementations. Raises `ValueError` if the tests reject a correct
    implementation."""
    phase, at_once = int(order["phase"]), int(order["at_once"])
    known = opened(phase, str(order["module"]))
    install(phase, known.reference)
    gc.collect()
    gc.freeze()  # so that a forked process has less memory to copy
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "own_tests.py"
        file.write_text(order["source"], encoding="utf-8")
        file.with_name("pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        texts = [known.reference, *(text for _, text in [*known.mistakes, *known.fair]), known.reference]
        works = [partial(run, phase, text, file) for text in texts]
        first, *_ = in_processes(works[:1], 1, SECONDS)
        require_right(first)
        *ended, last = in_processes(works[1:], at_once, SECONDS)
        require_right(last, " the second time")
    caught = [bool(refusal(one)) for one in ended[: len(known.mistakes)]]
    fair = zip(known.fair, ended[len(known.mistakes) :], strict=True)
    return {
        "tests": first.answer["tests"] if first.answer else 0,
        "prints": bool(first.answer and first.answer["prints"]),
        "mistakes": [[rule, is_caught] for (rule, _), is_caught in zip(known.mistakes, caught, strict=True)],
        "fair": [[name, refusal(one)] for (name, _), one in fair],
    }


def opened(phase: int, module: str) -> KnownMistakes:
    """Use a module's answers to open the known mistakes. Raises `ValueError` if the answers are wrong."""
    [ended] = in_processes([partial(key_from, phase, module)], 1, KEY_SECONDS)
    return unlocked(phase, bytes.fromhex(ended.answer["key"] if ended.answer else ""))


def key_from(phase: int, module: str) -> dict[str, str]:
    """Return the key derived from a module's answers, or empty bytes if the module cannot be imported."""
    try:
        return {"key": inner_key(phase, keys_of(phase, importlib.import_module(module))).hex()}
    except Exception:
        return {"key": ""}


def require_right(ended: Ended, when: str = "") -> None:
    """Raise `ValueError` unless the tests pass quickly on a correct implementation."""
    found = ended.answer
    if ended.late:
        raise ValueError(f"your tests did not finish within {SECONDS:g} s on a correct implementation{when}")
    if found and found["failed"]:
        raise ValueError(f"on a correct implementation, {found['failed']} fails{when}: {found['why']}")
    if found is None or found["code"] in ENDED_EARLY:
        raise ValueError(
            f"your tests exit Python when they run on a correct implementation{when}: remove the call that exits"
        )
    if not found["tests"]:
        raise ValueError("your file has no tests: pytest runs functions whose names begin with test_")
    if not found["passed"]:
        raise ValueError(f"none of your tests passes on a correct implementation{when}, although none fails either")
    if ended.cpu_seconds > MOST_CPU_SECONDS or ended.seconds > MOST_SECONDS:
        raise ValueError(
            f"your tests take {ended.cpu_seconds:.1f} s of CPU time and {ended.seconds:.1f} s in total, which exceeds "
            f"the limits of {MOST_CPU_SECONDS:g} and {MOST_SECONDS:g} s: test fewer or smaller cases"
        )


def refusal(ended: Ended) -> str:
    """Return how the tests reject an implementation, or an empty string if they accept it."""
    if (found := ended.answer) and found["failed"]:
        return f"{found['failed']}: {found['why']}"
    if found is None or found["code"] in ENDED_EARLY:
        return "they do not end" if ended.late else "they end Python itself"
    return ""
