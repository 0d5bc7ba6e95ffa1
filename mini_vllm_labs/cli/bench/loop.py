"""`mini-vllm bench loop`: how long a learner waits for a verdict after a save."""

from collections.abc import Iterator
from typing import Annotated

import typer

from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.cli.bench.measured import run_cases
from mini_vllm_labs.pictures.terminal.console import friendly
from mini_vllm_labs.pictures.terminal.options import AsJson, chosen_phases
from mini_vllm_labs.pictures.terminal.progress import ProgressReport
from mini_vllm_labs.runs.starter_status import LABS

SECONDS_OF_ROUND = 5
WHY = (
    "Ratios divide a new worker by a side in the same round. `mini-vllm watch` keeps a worker that has imported the "
    "tests before the save; `grade` starts a new one, and so did earlier versions of `watch`."
)


@friendly
def bench_loop(
    phase: Annotated[str, typer.Option(metavar="K or K-M", help="The phases whose first task is graded.")] = "1-6",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per side; sides take turns after a warm-up.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure the time from a save to the verdict on a task.

    The benchmark grades a copy of the course, with your starter or, if the checkout contains it, the solution.
    """
    from mini_vllm_labs.bench.save_to_verdict import verdict_cases

    numbers = chosen_phases(phase, len(LABS))

    def cases(report: ProgressReport) -> Iterator[Case]:
        yield from verdict_cases(numbers, rounds, report)

    seconds = len(numbers) * (rounds + 1) * SECONDS_OF_ROUND
    run_cases(cases, seconds=seconds, as_json=as_json, text="Copying the course", closing=[WHY])
