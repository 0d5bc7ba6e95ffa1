"""Reads and writes trace files: our format (a line of settings, then one step per line) and recorded scenarios."""

import json
from pathlib import Path
from typing import Any

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.parity.scenario import Scenario, read_scenarios


def write_trace(path: Path, records: list[StepRecord], token_budget: int | None) -> None:
    """Write a trace. The first line is `{"token_budget": ...}`, and every other line is a step."""
    lines: list[Any] = [{"token_budget": token_budget}, *records]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def read_trace(path: Path, name: str | None = None) -> tuple[list[StepRecord], int | None]:
    """Return the steps of a trace file and its token budget, or None if the budget is unknown.

    Raises the same errors as `open_trace`.
    """
    found = open_trace(path, name)
    if isinstance(found, Scenario):
        records: list[StepRecord] = found.line["trace"]["steps"]
        return records, int(found.line["config"]["max_num_batched_tokens"])
    return found


def open_trace(path: Path, name: str | None = None) -> Scenario | tuple[list[StepRecord], int | None]:
    """Return a recorded scenario, or the steps and the token budget of our trace.

    In a file of recorded scenarios, `name` selects one; it may be None if there is only one scenario. Raises
    `ValueError` if the file does not contain a trace, and `OSError` if it cannot be read.
    """
    if path.suffix != ".gz":
        try:
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except ValueError as error:
            raise ValueError(f"{path} is not a trace: {error}") from error
        if not any(isinstance(line, dict) and "trace" in line for line in lines):
            return read_steps(path, lines)
    scenarios = {scenario.name: scenario for scenario in read_scenarios(path)}
    if name is None and len(scenarios) != 1:
        raise ValueError(f"{path} has {len(scenarios)} scenarios; choose one with --name: {', '.join(scenarios)}")
    if name is not None and name not in scenarios:
        raise ValueError(f"{path} has no scenario {name!r}; its scenarios are {', '.join(scenarios)}")
    return scenarios[name] if name is not None else next(iter(scenarios.values()))


def read_steps(path: Path, lines: list[Any]) -> tuple[list[StepRecord], int | None]:
    """Check that the lines are steps, and split off a first line of settings if there is one."""
    budget = None
    if lines and isinstance(lines[0], dict) and "token_budget" in lines[0]:
        budget = lines.pop(0)["token_budget"]
    needed = {"step", "scheduled", "total", "preempted", "evicted", "free_after_schedule", "output", "finished"}
    for number, line in enumerate(lines):
        if not isinstance(line, dict) or needed - line.keys():
            raise ValueError(f"{path} is not a trace: step {number} must be an object with {', '.join(sorted(needed))}")
    if not lines:
        raise ValueError(f"{path} is not a trace: it has no steps")
    return lines, budget
