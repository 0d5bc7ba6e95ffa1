"""Runs simulations one after another, shows their progress and stores the results."""

import gc
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial

from mini_vllm import Lineup
from mini_vllm_labs.pictures.terminal.progress import ProgressReport, reported
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.served import Slo
from mini_vllm_labs.simulation.summary import Summary, summarize
from mini_vllm_labs.simulation.waiting import WaitingTimes


@dataclass(frozen=True)
class SimulationResult:
    """One finished simulation, which took `wall_seconds` on this machine.

    `waited`, if requested, contains how many seconds requests went without tokens, by reason.
    """

    experiment: Experiment
    summary: Summary
    wall_seconds: float
    waited: Mapping[str, float] | None = None


def run_all(
    experiments: list[Experiment], lineup: Lineup, slo: Slo, *, explained: bool = False
) -> list[SimulationResult]:
    """Run the experiments in order, show the progress and measure the duration of each."""
    results, num_before = [], 0
    total = sum(experiment.num_requests for experiment in experiments)
    with reported("Drawing the requests") as report:
        for experiment in experiments:
            on_progress = partial(_report_finished, report, num_before, total)
            started = time.perf_counter()
            waits = WaitingTimes() if explained else None
            gc.freeze()  # keeps the garbage collector from traversing existing objects
            try:
                summary = summarize(experiment.run(lineup, on_progress, waits), slo)
            finally:
                gc.unfreeze()
            seconds = time.perf_counter() - started
            results.append(SimulationResult(experiment, summary, seconds, None if waits is None else waits.seconds))
            num_before += experiment.num_requests
    return results


def _report_finished(report: ProgressReport, num_before: int, total: int, num_finished: int) -> None:
    report("Simulating requests", num_before + num_finished, total)


def as_record(result: SimulationResult, slo: Slo) -> dict[str, object]:
    """Return the result as a JSON object, with seconds of simulated time, tokens and requests."""
    experiment = result.experiment
    return {
        "experiment": {**asdict(experiment), "engine": asdict(experiment.resolved_engine())},
        "cost_model": asdict(experiment.cost),
        "slo": asdict(slo),
        **asdict(result.summary),
        "wall_seconds": result.wall_seconds,
        **({} if result.waited is None else {"waited": result.waited}),
    }
