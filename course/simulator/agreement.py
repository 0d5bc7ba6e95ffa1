"""Compare the simulation with the real engine: fit the cost model on one workload, predict three others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from course.simulator.calibration import Calibration
from course.simulator.measured_engine import ALL_AT_ONCE, MeasuredEngine
from course.simulator.served import Served
from course.simulator.simulation import simulate
from course.simulator.workloads import WorkloadName
from mini_vllm.assembly.lineup import Lineup

CHECKED_ON: tuple[WorkloadName, ...] = ("burst", "documents", "shared-prefix")
CHECK_LOAD = 0.5
TOLERANCE = 0.15
NUM_ROUNDS = 5
"""Rounds of fit and comparison. The median ratio counts, because computers have slow phases of some seconds."""
Figures = dict[str, Callable[[Served], float]]

LATENCIES: Figures = {
    "median TTFT": lambda served: served.time_to_first_token([50])[0],
    "median ITL": lambda served: served.inter_token_latency([50])[0],
}
THROUGHPUT: Figures = {"tokens/s": lambda served: served.output_tokens_per_second}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one workload, measured and predicted. Seconds, or tokens per second.

    `ratios` are those of all rounds in ascending order, if this is the median of several rounds.
    """

    workload: str
    figure: str
    measured: float
    predicted: float
    ratios: Sequence[float] = ()

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured

    @property
    def agrees(self) -> bool:
        """Whether the prediction is within `TOLERANCE` of the measurement."""
        return abs(self.ratio - 1) <= TOLERANCE


def calibrate_and_compare(
    engine: MeasuredEngine, lineup: Lineup, on_progress: Callable[[str], None], num_rounds: int = NUM_ROUNDS
) -> tuple[Calibration, list[Comparison]]:
    """Fit and compare in rounds; return the fit with the smallest error, and of each figure the median round.

    All rounds use the arrival rates of a first, rough fit.
    """
    rate = engine.warm_up(on_progress)
    rough = engine.fitted(engine.steps_to_fit(rate, on_progress)).cost
    rates = {workload: CHECK_LOAD * engine.sustainable_rate(workload, rough) for workload in CHECKED_ON}
    rounds = []
    for number in range(num_rounds):
        report = partial(_report_in_round, on_progress, f"Round {number + 1} of {num_rounds}: ")
        rounds.append(one_round(engine, lineup, report, rate, rates, text=1 + 2 * number))
    best = min((fitted for fitted, _ in rounds), key=lambda fitted: fitted.typical_error)
    return best, [_middle(figure) for figure in zip(*(compared for _, compared in rounds), strict=True)]


def one_round(
    engine: MeasuredEngine,
    lineup: Lineup,
    on_progress: Callable[[str], None],
    rate: float,
    rates: Mapping[WorkloadName, float],
    text: int,
) -> tuple[Calibration, list[Comparison]]:
    """Serve the workloads that are not part of the fit, and predict their figures.

    Latencies are measured on a stream at these `rates`. Throughput is measured with all requests at once, because in
    a stream the arrivals alone determine it. The steps to fit are measured before and after, so that a computer that
    slows down affects both.
    """
    steps, checks = engine.steps_to_fit(rate, on_progress, text), []
    for seed, (workload, arriving) in enumerate(rates.items(), start=10):
        for how, rate_of_check, number, figures in (
            ("as a stream", arriving, seed, LATENCIES),
            ("all at once", ALL_AT_ONCE, seed + 10, THROUGHPUT),
        ):
            on_progress(f"Measuring {workload!r}, {how} ...")
            requests = engine.requests(workload, rate_of_check, number, text)
            checks.append((workload, requests, figures, engine.measure(requests)[0]))
    fitted = engine.fitted(steps + engine.steps_to_fit(rate, on_progress, text + 1))
    on_progress("Predicting ...")
    compared = []
    for workload, requests, figures, measured in checks:
        predicted = simulate(requests, engine.config, fitted.cost, replace(lineup, runner="absent"))
        compared += [Comparison(workload, name, of(measured), of(predicted)) for name, of in figures.items()]
    return fitted, compared


def _middle(figure: Sequence[Comparison]) -> Comparison:
    ordered = sorted(figure, key=lambda row: row.ratio)
    return replace(ordered[len(ordered) // 2], ratios=[row.ratio for row in ordered])


def _report_in_round(on_progress: Callable[[str], None], prefix: str, text: str) -> None:
    on_progress(prefix + text)
