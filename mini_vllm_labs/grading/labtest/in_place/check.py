"""Compares a phase in an engine step by step with a recorded run. This file contains no tasks."""

from collections.abc import Sequence
from io import StringIO
from types import ModuleType
from typing import Any, cast

import pytest
from rich.console import Console

from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.grading.labtest.expect import explained, lab_failure
from mini_vllm_labs.grading.labtest.failure import Shares
from mini_vllm_labs.grading.labtest.in_place.place import Place, Record, recorded_run
from mini_vllm_labs.grading.labtest.in_place.scenario import draw_scenario
from mini_vllm_labs.grading.labtest.in_place.tape import OtherRunError, Tape
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.pictures.terminal.differences import differing_parts
from mini_vllm_labs.pictures.terminal.step_table import step_table
from mini_vllm_labs.runs.sandbox.explain import headline
from mini_vllm_labs.runs.sandbox.frames import learners_frames

MAX_STEPS = 150
WIDTH, MAX_BLOCKS = 110, 12
SEEDS = {  # chosen by `python -m tests.mutants.scenarios`, with short runs first
    1: "41 42 57 45 25 35 48 37 51 46 56 5 52 28 15 49 4 27 20 14",
    2: "7 57 46 12 50 38 5 1 15 40 21 58 56 8 42 28 26 9 29 24 51 44",
    3: "7 57 56 58 51 30 35 36 41 31 17 32 5 26 43 59 14 10 44 42 19 28",
    4: "51 15 53 35 28 56 20 31 21 0 8 42 36 11 27 30 52 34 29 17 14 9",
    5: "32 55 50 58 37 57 26 48 43 17 1 31 16 40 9 39 27 12 8 5 44 29 0 24",
    6: "28 26 55 46 8 12 6 40 15 48 18 20 32 33 3 7 30 11 2 1",
    7: "48 17 6 41 47 46 27 11 22 8 51 32 5 38 15 25 52 55 1 4 0",
    8: "27 22 50 25 2 40 37 36 38 31 26 58 52 21 1 30 47 12 49 59",
}
RULE = (
    "In an engine your phase makes the recorded decisions in every step, and the engine's invariants hold after each."
)
LABELS = {
    "running_after": "RUNNING after: id, tokens, computed, placeholders",
    "requests": "requests: status, first hit, preemptions, hashes",
}
HINT = (
    "work out this step by hand from the state before it. Which of your functions gives the first value that differs?"
)


def each_scenario(phase: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seed", [int(seed) for seed in SEEDS[phase].split()])


def check_in_an_engine(phase: int, yours: ModuleType, answers: Answers, seed: int) -> None:
    """Run a scenario with your phase; fail at the first step that differs from the recording."""
    scenario = draw_scenario(phase, seed)
    expected, tape = answers(lambda: recorded_run(phase, yours, scenario, MAX_STEPS))
    heading, records = f"scenario {seed}: {scenario}", list[Record]()
    with explained([heading, "your phase is put into the engine"], rule=RULE):
        place = Place(phase, yours, scenario, Tape(tape))
    for right in expected:
        before, ended = situation(heading, records, place), ""
        try:
            with explained(before, rule=RULE):
                records.append(place.step())
        except (StalledError, OtherRunError) as error:
            ended = str(error)
        except LookupError as error:  # raised in the engine, possibly many calls after the answer that caused it
            if learners_frames(error.__traceback__):
                raise
            ended = f"the engine ends with {headline(error)}"
        if ended:
            lines = [*before, *drawn_step("expected", [*records, right])]
            lab_failure(rule=RULE, situation=lines, expected="this step is taken", yours=ended, hint=HINT)
        compare(place, records, right, before)


def compare(place: Place, records: Sequence[Record], right: Record, before: Sequence[str]) -> None:
    """Fail with a table of the step if the last record differs from the recording or violates an invariant."""
    yours, broken = records[-1], place.what_is_broken()
    if yours == right and not broken:
        return
    names = [name for name in right if yours[name] != right[name] and name not in ("total", "update_of")]
    parts = [part for name in names for part in differing_parts(name, right[name], yours[name])]
    parts = [(LABELS.get(name, name), ours, theirs) for name, ours, theirs in parts]
    parts += [("what must hold", "holds", broken)] if broken else []
    expected, found = ({name: pair[side].replace("\n", ", ") for name, *pair in parts} for side in (0, 1))
    planned, yours_planned = ({one["id"]: one["n"] for one in record["scheduled"]} for record in (right, yours))
    lab_failure(
        rule=RULE,
        situation=[*before, *drawn_step("expected", [*records[:-1], right]), *drawn_step("yours", records)],
        expected=expected,
        yours=found,
        hint=HINT,
        shares=Shares(planned, yours_planned, place.config.max_num_batched_tokens),
    )


def situation(heading: str, records: Sequence[Record], place: Place) -> list[str]:
    """Describe the state before the next step."""
    scheduler, number = place.scheduler, place.number
    tables = [list(scheduler.kv.block_ids(one.request_id)) for one in scheduler.running]
    running = [
        f"{one.request_id!r} {one.num_computed_tokens}/{one.num_tokens} in "
        + (str(table) if len(table) <= MAX_BLOCKS else f"{len(table)} blocks")
        for one, table in zip(scheduler.running, tables, strict=True)
    ]
    waiting = [f"{one.request_id!r} {one.num_tokens}" for one in scheduler.waiting]
    coming = [new.request_id for new in place.scenario.arrivals if new.step == number]
    return [
        heading,
        f"before step {len(records)} (arrives: {coming or 'none'}, is aborted: {place.scenario.aborts.get(number)})",
        f"RUNNING {', '.join(running) or 'none'}",
        f"WAITING {', '.join(waiting) or 'none'}",
    ]


def drawn_step(whose: str, records: Sequence[Record]) -> list[str]:
    """Return the table of a trace's last step as lines."""
    steps = cast(list[StepRecord], [cast(Any, record) for record in records])
    table = step_table(steps, None, range(len(steps) - 1, len(steps)))
    table.caption = None
    text = StringIO()
    Console(file=text, width=WIDTH, color_system=None).print(table)
    return [f"the step, {whose}:", *(line.rstrip() for line in text.getvalue().splitlines() if line.strip())]
