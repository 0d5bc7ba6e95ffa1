"""Finds the learner's current engine, for use in a checkout without a reference."""

import os
import re
import shutil
import sys
from pathlib import Path

import typer
from rich.console import Console

from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT, PHASE_NAMES, Lineup, parse_lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.config import EngineConfig
from mini_vllm.environment import LAB_IMPL
from mini_vllm_labs.runs.starter_status import starter_path, unwritten_tasks, written_lineup, written_phases
from mini_vllm_labs.runs.workloads.electives import electives_of

RECORDED = "mini-vllm trace --read labs/observed/all_phases.jsonl"
WHOLE_REFERENCE = f"solution:1-{len(ALL_NAMES)}"  # includes electives; the settings determine whether they are used
TURNS_ON = {7: "--speculative-method ngram", 8: "--async-scheduling", 10: "--kv-connector host"}


def lineup_to_run(text: str | None, console: Console, reference: str = "solution") -> Lineup:
    """Return the lineup given by `--lineup`, or else by `LAB_IMPL`, or else the default: `reference`, or the written
    phases.

    If there is neither a reference nor phase 1, prints the first task to write and exits with status 1. Raises
    `ValueError` if the given string is not a lineup.
    """
    if is_chosen(text):
        return parse_lineup(text or LAB_IMPL.get() or reference)
    lineup = written_lineup()
    if lineup is None:
        say_what_you_have(console)
        raise typer.Exit(1)
    return lineup


def is_chosen(text: str | None) -> bool:
    """Return whether the lineup was chosen explicitly or the reference exists as the default."""
    return text is not None or bool(LAB_IMPL.get()) or solutions_exist()


def remark_on_electives(lineup: Lineup, config: EngineConfig) -> str:
    """Return the options that turn on a lineup's unused electives, or an empty string if there are none."""
    used = electives_of(config)
    idle = [phase for phase in TURNS_ON if lineup[phase] != "absent" and phase not in used]
    options = ", ".join(f"{TURNS_ON[phase]} (phase {phase})" for phase in idle)
    return f"Electives in the engine and turned off: {options}." if idle else ""


def say_what_you_have(console: Console) -> None:
    """Print which phases are written, and the next step."""
    written = written_phases()
    to_write = [phase for phase in range(1, len(PHASE_NAMES) + 1) if phase not in written]
    if 1 not in written:
        console.print("Nothing can run yet: phase 1, the scheduler, is not written, and it decides every step.")
        console.print(f"What the finished engine decides is recorded: {RECORDED}", markup=False, soft_wrap=True)
    elif to_write:
        names = enumeration(written)
        console.print(f"Phase {names} is" if len(written) == 1 else f"Phases {names} are", end="")
        console.print(" written: the engine runs on what you have, and does without the rest.")
        if 4 in written and 2 not in written:
            console.print("Phase 4 waits for phase 2, because it shares blocks.")
    else:
        console.print("All six phases are written, and all of them are yours.")
    if to_write:
        console.print(next_steps(to_write[0]), markup=False, soft_wrap=True)


def enumeration(phases: list[int]) -> str:
    """Return a list such as `1`, `1 and 2`, `1, 2 and 4`."""
    *first, last = map(str, phases)
    return f"{', '.join(first)} and {last}" if first else last


def next_steps(phase: int) -> str:
    tasks = unwritten_tasks(phase)
    path = starter_path(phase).relative_to(CHECKOUT)
    number = re.search(r"tasks? (\d)", tasks[0])
    test = f"pytest labs/{path.parent.name}" + (f" -m task{phase}_{number[1]}" if number else "")
    return (
        f"{activation()}"
        f"\n  1. Read    {path.with_name('README.md').as_posix()}\n"
        f"  2. Write   {path.as_posix()}; next is {tasks[0]}\n"
        f"  3. Check   {test}\n"
        f"  4. Watch   mini-vllm demo\n"
    )


def activation() -> str:
    """Return the command that activates the environment in this terminal, or an empty string if it is already
    active."""
    found = shutil.which("mini-vllm")
    if found is not None and Path(found).parent.resolve() == Path(sys.executable).parent.resolve():
        return ""
    activate = r".venv\Scripts\activate" if os.name == "nt" else "source .venv/bin/activate"
    return f"Once per terminal, for `mini-vllm` and `pytest`: {activate}\n"
