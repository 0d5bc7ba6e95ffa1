"""Compare the simulation with the real engine: fit the cost model on one workload, predict three others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from course.simulator.calibration import Calibration
from course.simulator.measurement_rig import ALL_AT_ONCE, MeasurementRig
from course.simulator.served import Served
from course.simulator.simulation import simulate
from course.simulator.workloads import WorkloadName
from course.workloads.timed_request import TimedRequest
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


@dataclass(frozen=True, slots=True)
class Check:
    """Requests as a real engine served them, and the figures that the simulation should predict."""

    workload: str
    requests: list[TimedRequest]
    measured: Served
    figures: Figures


def calibrate_and_compare(
    rig: MeasurementRig, lineup: Lineup, on_progress: Callable[[str], None], num_rounds: int = NUM_ROUNDS
) -> tuple[Calibration, list[Comparison]]:
    """Fit and compare in rounds; return the fit with the smallest error, and of each figure the median round.

    All rounds use the arrival rates of a first, rough fit.
    """
    rate = rig.warm_up(on_progress)
    rough = rig.fitted(rig.steps_to_fit(rate, on_progress)).cost
    rates = {workload: CHECK_LOAD * rig.sustainable_rate(workload, rough) for workload in CHECKED_ON}
    rounds = []
    for number in range(num_rounds):
        report = partial(_report_in_round, on_progress, f"Round {number + 1} of {num_rounds}: ")
        rounds.append(one_round(rig, lineup, report, rate, rates, text=1 + 2 * number))
    best = min((fitted for fitted, _ in rounds), key=lambda fitted: fitted.typical_error)
    return best, [_middle(figure) for figure in zip(*(compared for _, compared in rounds), strict=True)]


def one_round(
    rig: MeasurementRig,
    lineup: Lineup,
    on_progress: Callable[[str], None],
    rate: float,
    rates: Mapping[WorkloadName, float],
    text: int,
) -> tuple[Calibration, list[Comparison]]:
    """Measure the steps to fit before and after the checks, so that a computer that slows down affects both."""
    steps = rig.steps_to_fit(rate, on_progress, text)
    checks = serve_checks(rig, on_progress, rates, text)
    steps += rig.steps_to_fit(rate, on_progress, text + 1)
    fitted = rig.fitted(steps)
    on_progress("Predicting ...")
    return fitted, [row for check in checks for row in compare(check, rig, fitted, lineup)]


def serve_checks(
    rig: MeasurementRig, on_progress: Callable[[str], None], rates: Mapping[WorkloadName, float], text: int
) -> list[Check]:
    """Serve the workloads that are not part of the fit, at these `rates` and all at once.

    Latencies are measured on the stream. Throughput is measured with all requests at once, because in a stream
    the arrivals alone determine it.
    """
    checks = []
    for seed, (workload, rate) in enumerate(rates.items(), start=10):
        for how, arriving, number, figures in (
            ("as a stream", rate, seed, LATENCIES),
            ("all at once", ALL_AT_ONCE, seed + 10, THROUGHPUT),
        ):
            on_progress(f"Measuring {workload!r}, {how} ...")
            requests = rig.requests(workload, arriving, number, text)
            checks.append(Check(workload, requests, rig.measure(requests)[0], figures))
    return checks


def compare(check: Check, rig: MeasurementRig, fitted: Calibration, lineup: Lineup) -> list[Comparison]:
    """Predict the measured figures; return a comparison for each."""
    predicted = simulate(check.requests, rig.config, fitted.cost, replace(lineup, runner="absent"))
    return [
        Comparison(check.workload, name, figure(check.measured), figure(predicted))
        for name, figure in check.figures.items()
    ]


def _middle(figure: Sequence[Comparison]) -> Comparison:
    ordered = sorted(figure, key=lambda row: row.ratio)
    return replace(ordered[len(ordered) // 2], ratios=[row.ratio for row in ordered])


def _report_in_round(on_progress: Callable[[str], None], prefix: str, text: str) -> None:
    on_progress(prefix + text)
