"""Options shared by the commands that grade or that set up Gradescope."""

import secrets
from dataclasses import dataclass
from typing import Annotated

import typer

from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.pictures.terminal.options import chosen_phases
from mini_vllm_labs.runs.starter_status import LABS

Seconds = Annotated[float, typer.Option(min=0.5, help="Seconds for one situation; slow machines need more.")]


@dataclass(frozen=True)
class JudgeOptions:
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase", metavar="K or K-M", help="Default: phases 1-6. Electives, from 7 on, need a separate run."
        ),
    ] = None
    seed: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Seed of a run to repeat. Default: a new secret one, shown at the end."),
    ] = None
    situations: Annotated[int, typer.Option(min=1, help="Number of situations in each test group.")] = 5
    seconds: Seconds = 10.0
    minutes: Annotated[float, typer.Option(min=0.5, help="Seconds for one submission; the rest is not played.")] = 10.0
    no_jail: Annotated[bool, typer.Option("--no-jail", help="Grade without isolation, for files that you trust.")] = (
        False
    )

    def settings(self) -> JudgeSettings:
        """Return a run's settings. Raises `ValueError` in a student edition, and for unknown phases."""
        if not solutions_exist():
            raise ValueError("the judge needs solutions/: this is a student edition")
        chosen = chosen_phases(self.phase, len(LABS if self.phase else PHASE_NAMES))
        if len({number > len(PHASE_NAMES) for number in chosen}) > 1:
            raise ValueError(
                f"--phase {self.phase}: grade electives (phases 7 and up) in a separate run, because their points are "
                "counted separately"
            )
        seed = self.seed or secrets.token_hex(16)
        return JudgeSettings(seed, self.situations, self.seconds, self.minutes, tuple(chosen), not self.no_jail)
