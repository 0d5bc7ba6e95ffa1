"""Animates one lesson per function: a race of policies, a stuttering answer, a growing prefix tree, the gates."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mini_vllm_labs.fresh.jobs import WorkloadRun
from mini_vllm_labs.notebook.notice import Notice, show
from mini_vllm_labs.notebook.recorded_mark import first_mark, marked_film
from mini_vllm_labs.notebook.simulated import step_ms
from mini_vllm_labs.notebook.tokens_ahead import of_recordings
from mini_vllm_labs.pictures.gates import gates
from mini_vllm_labs.pictures.prefix_tree import prefix_tree
from mini_vllm_labs.pictures.race import race
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.stutter import stutter

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.widgets import Player

SPEED = 4


def watch_race(runs: Mapping[str, WorkloadRun | Notice], step: int = 0) -> "Player | Notice":
    """Show the same requests in several runs on a common time axis, with one lane per run."""
    return of_recordings(runs, lambda recordings, mark: player(marked_film(race(recordings), mark), step))


def watch_stutter(runs: Mapping[str, WorkloadRun | Notice], request: str) -> "Player | Notice":
    """Show how a request's answer grows in several runs, in simulated time on an H100."""
    return of_recordings(
        runs, lambda recordings, mark: player(marked_film(stutter(recordings, request, step_ms), mark), speed=SPEED)
    )


def watch_tree(run: WorkloadRun | Notice, step: int = 0) -> "Player | Notice":
    """Show a run's prefix tree at one of its steps."""
    return show(lambda run: player(marked_film(prefix_tree(run.recording), first_mark([run])), step), run)


def watch_gates(run: WorkloadRun | Notice) -> "Player | Notice":
    """Show which gate (compute, request slots or memory) closes in each step of a run with many requests."""
    return show(lambda run: player(marked_film(gates(run.recording), first_mark([run]))), run)
