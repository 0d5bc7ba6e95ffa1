"""The engine that a learner has so far, in a checkout without a reference."""

import re

from rich.console import Console

from mini_vllm.lineup import CHECKOUT, PHASE_NAMES, Lineup, parse_lineup
from mini_vllm.written import starter_path, unwritten_tasks, written_phases


def what_you_have(console: Console) -> Lineup | None:
    """Return the lineup of the phases that are written, and say what comes next; None if phase 1 is not written."""
    last = written_phases()
    if last == 0:
        console.print("Nothing can run yet: phase 1, the scheduler, is not written, and it decides every step.")
    elif last == len(PHASE_NAMES):
        console.print("All six phases are written, and all of them are yours.")
    else:
        phases = "Phase 1 is" if last == 1 else f"Phases 1 to {last} are"
        console.print(f"{phases} written: the demo runs on them, and does without the others.")
    if last < len(PHASE_NAMES):
        console.print(next_steps(last + 1), markup=False, soft_wrap=True)
    return parse_lineup(f"starter:1-{last}" if last > 1 else "starter:1") if last else None


def next_steps(phase: int) -> str:
    """Return what a learner does next, in the order in which they do it."""
    tasks = unwritten_tasks(phase)
    path = starter_path(phase).relative_to(CHECKOUT)
    number = re.search(r"tasks? (\d)", tasks[0])
    test = f"pytest labs -m task{phase}_{number[1]}" if number else f"pytest labs/{path.parent.name}"
    return (
        f"\n  1. Read    {path.with_name('README.md').as_posix()}\n"
        f"  2. Write   {path.as_posix()}; next is {tasks[0]}\n"
        f"  3. Check   {test}\n"
        f"  4. Watch   make demo\n"
    )
