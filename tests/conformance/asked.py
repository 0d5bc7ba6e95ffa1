"""Runs the suite in this process, on a few scenarios."""

import sys
from collections.abc import Sequence
from pathlib import Path

from mini_vllm_labs.conformance.scenarios import FOLDER
from mini_vllm_labs.conformance.suite import Options, run

NAMED, NAMED33 = FOLDER / "traces/named.jsonl", FOLDER / "traces33/named33.jsonl"
NO_FAULT = '{"no": "fault"}'
GATES33 = FOLDER / "traces33/gates33.jsonl.gz"
RANDOM = FOLDER / "traces/random.jsonl.gz"


def recorded(fault: str = NO_FAULT, *files: Path) -> list[str]:
    """Return the command of an engine that gives the recorded answers."""
    return [sys.executable, "-m", "tests.conformance.recorded_engine", fault, *map(str, files or [NAMED])]


def suite(command: Sequence[str], options: Options) -> tuple[int, str]:
    """Run the suite on an engine; return the exit code and all output."""
    said: list[str] = []
    return run(command, options, said.append), "\n".join(said)
