"""A phase in an engine, compared step by step with what was recorded. Nothing here is to be filled in."""

from collections.abc import Mapping, Sequence
from io import StringIO
from types import ModuleType
from typing import Any, cast

from rich.console import Console

from course.labtest.expect import explained, lab_failure
from course.labtest.failure import Shares
from course.labtest.in_place.place import Place, Record, trace_of
from course.labtest.in_place.scenario import draw_scenario
from course.labtest.recorded import Answers
from course.terminal.differences import differing_parts
from course.terminal.step_table import step_table
from mini_vllm.core.invariants import InvariantError
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.errors import StalledError

MAX_STEPS = 150
WIDTH = 110
SEEDS = {  # `python -m tests.mutants.scenarios` has chosen them, short runs first
    1: "41 42 57 45 25 35 48 37 51 46 56 5 52 28 15 49 4 27 20 14",
    2: "0 1 2 3 4 5",
    3: "7 57 56 58 51 30 35 36 41 31 17 32 5 26 43 59 14 10 44 42 19 28",
    4: "51 15 53 35 28 56 20 31 21 0 8 42 36 11 27 30 52 34 29 17 14 9",
    5: "32 55 50 58 37 57 26 48 43 17 1 31 16 40 9 39 27 12 8 5 44 29 0 24",
    6: "0 1 2 3 4 5",
    7: "48 17 6 41 47 46 27 11 22 8 51 32 5 38 15 25 52 55 1 4 0",
    8: "27 22 50 25 2 40 37 36 38 31 26 58 52 21 1 30 47 12 49 59",
}
RULE = "In an engine your phase decides as recorded, step by step, and what must hold of every step holds."
HINT = "do this step by hand from the state before it: which of your functions gives the first value that differs?"


def check_in_an_engine(phase: int, yours: ModuleType, answers: Answers, seed: int) -> None:
    """Run a scenario with your phase; fail at the first step that differs from the recorded ones."""
    scenario = draw_scenario(phase, seed)
    expected: list[Record] = answers(lambda: trace_of(Place(phase, yours, scenario), MAX_STEPS))
    records: list[Record] = []
    with explained([f"scenario {seed}: {scenario}", "your phase is put into the engine"], rule=RULE):
        place = Place(phase, yours, scenario)
    for right in expected:
        before = situation(f"scenario {seed}: {scenario}", records, place)
        try:
            with explained(before, rule=RULE):
                records.append(place.step())
        except (InvariantError, StalledError) as error:
            fail(before, {"what must hold": "holds"}, {"what must hold": str(error)})
        compare(records, right, before, scenario.config.max_num_batched_tokens)


def compare(records: Sequence[Record], right: Record, before: Sequence[str], budget: int) -> None:
    """Fail, with the step drawn, if the last record is not the recorded one."""
    yours = records[-1]
    if yours == right:
        return
    names = [name for name in right if yours[name] != right[name] and name not in ("total", "update_of")]
    parts = [part for name in names for part in differing_parts(name, right[name], yours[name])]
    shares = Shares(*({one["id"]: one["n"] for one in record["scheduled"]} for record in (right, yours)), budget)
    drawn = [*before, *drawn_step("expected", [*records[:-1], right]), *drawn_step("yours", records)]
    expected, found = ({name: pair[side] for name, *pair in parts} for side in (0, 1))
    fail(drawn, expected, found, shares)


def fail(before: Sequence[str], expected: object, yours: object, shares: Shares | None = None) -> None:
    lab_failure(rule=RULE, situation=before, expected=expected, yours=yours, hint=HINT, shares=shares)


def situation(heading: str, records: Sequence[Record], place: Place) -> list[str]:
    """Return how things stand before the next step."""
    kv, scheduler = place.scheduler.kv, place.scheduler
    lines = [heading, f"before step {len(records)}:"]
    for name, queue in (("RUNNING", scheduler.running), ("WAITING", scheduler.waiting)):
        states = [
            f"{one.request_id!r} {one.num_computed_tokens}/{one.num_tokens} in {list(kv.block_ids(one.request_id))}"
            if name == "RUNNING"
            else f"{one.request_id!r} {one.num_tokens}"
            for one in queue
        ]
        lines.append(f"{name} {', '.join(states) or 'none'}")
    coming = [new.request_id for new in place.scenario.arrivals if new.step == place.number]
    return [*lines, f"arriving {coming}, aborted {place.scenario.aborts.get(place.number, 'none')}"]


def drawn_step(whose: str, records: Sequence[Record]) -> list[str]:
    """Return the table of a trace's last step as lines."""
    steps = cast(list[StepRecord], [cast(Any, record) for record in records])
    table = step_table(steps, None, range(len(steps) - 1, len(steps)))
    table.caption = None
    text = StringIO()
    Console(file=text, width=WIDTH, color_system=None).print(table)
    return [f"the step, {whose}:", *(line.rstrip() for line in text.getvalue().splitlines() if line.strip())]
