"""Options that the commands share which grade, or which set another system up to grade."""

import secrets
from typing import Annotated

import typer

from classroom.judge.settings import Settings
from course.terminal.options import chosen_phases
from mini_vllm.assembly.lineup import ALL_NAMES, PHASE_NAMES
from mini_vllm.assembly.parts import solutions_exist

Phases = Annotated[
    str | None,
    typer.Option("--phase", metavar="K or K-M", help="Default: phases 1-6. Electives, 7-8, in a run of their own."),
]
Situations = Annotated[int, typer.Option(min=1, help="Number of situations in each test group.")]
Seconds = Annotated[float, typer.Option(min=0.5, help="For one situation; slow machines need more.")]
Minutes = Annotated[float, typer.Option(min=0.5, help="For one submission; the rest is not played.")]
Seed = Annotated[str | None, typer.Option(metavar="TEXT", help="Default: a new secret one.")]
NoJail = Annotated[bool, typer.Option("--no-jail", help="Without isolation, for files that you trust.")]


def new_settings(
    seed: str | None, situations: int, seconds: float, minutes: float, phases: str | None, *, no_jail: bool
) -> Settings:
    """Return the settings of a run. Raises `ValueError` in a student edition, and for phases that there are not."""
    if not solutions_exist():
        raise ValueError("the judge needs solutions/: this is a student edition")
    numbers = tuple(range(1, len(PHASE_NAMES) + 1) if phases is None else chosen_phases(phases, len(ALL_NAMES)))
    if len({number > len(PHASE_NAMES) for number in numbers}) > 1:
        raise ValueError(
            f"--phase {phases}: grade the electives, 7 and 8, in a run of their own; their points are apart"
        )
    return Settings(seed or secrets.token_hex(16), situations, seconds, minutes, numbers, not no_jail)
