"""Does the simulation say what the real engine does? Fit it on one workload, compare on three others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from course.simulator.calibration import Calibration
from course.simulator.measurement_rig import ALL_AT_ONCE, Bench, Say
from course.simulator.served import Served, percentiles, weighted_percentiles
from course.simulator.simulation import simulate
from course.simulator.workloads import TimedRequest, WorkloadName
from mini_vllm.seams.lineup import Lineup

CHECKED_ON: tuple[WorkloadName, ...] = ("burst", "documents", "shared-prefix")
CHECK_LOAD = 0.5
TOLERANCE = 0.15
NUM_ROUNDS = 5
"""Fit and comparison are made so often, and the middle ratio counts: computers have slow phases of some seconds."""
Figures = dict[str, Callable[[Served], float]]

LATENCIES: Figures = {
    "median TTFT": lambda served: percentiles(served.times_to_first_token, [50])[0],
    "median ITL": lambda served: weighted_percentiles(served.gaps, [50])[0],
}
THROUGHPUT: Figures = {"tokens/s": lambda served: served.output_tokens_per_second}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one workload, measured and predicted. Seconds, or tokens per second.

    `ratios` are those of all rounds in order of size, if it is the middle one of several.
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
    """Requests as a real engine served them, and the figures that the simulation should find too."""

    workload: str
    requests: list[TimedRequest]
    measured: Served
    figures: Figures


def calibrate_and_compare(
    bench: Bench, lineup: Lineup, say: Say, num_rounds: int = NUM_ROUNDS
) -> tuple[Calibration, list[Comparison]]:
    """Fit and compare in rounds; return the fit with the smallest error, and each figure's middle round by ratio.

    The rates at which requests arrive are those of a first fit, in all rounds.
    """
    rate = bench.warm_up(say)
    rough = bench.fitted(bench.steps_to_fit(rate, say)).cost
    rates = {workload: CHECK_LOAD * bench.bearable_rate(workload, rough) for workload in CHECKED_ON}
    rounds = []
    for number in range(num_rounds):
        say_round = partial(_say_in_round, say, f"Round {number + 1} of {num_rounds}: ")
        rounds.append(one_round(bench, lineup, say_round, rate, rates, text=1 + 2 * number))
    best = min((fitted for fitted, _ in rounds), key=lambda fitted: fitted.typical_error)
    return best, [_middle(figure) for figure in zip(*(compared for _, compared in rounds), strict=True)]


def one_round(
    bench: Bench, lineup: Lineup, say: Say, rate: float, rates: Mapping[WorkloadName, float], text: int
) -> tuple[Calibration, list[Comparison]]:
    """Measure what is fitted before and after what is predicted: a computer that becomes slower is so for both."""
    steps = bench.steps_to_fit(rate, say, text)
    checks = serve_checks(bench, say, rates, text)
    steps += bench.steps_to_fit(rate, say, text + 1)
    fitted = bench.fitted(steps)
    say("Predicting ...")
    return fitted, [row for check in checks for row in compare(check, bench, fitted, lineup)]


def serve_checks(bench: Bench, say: Say, rates: Mapping[WorkloadName, float], text: int) -> list[Check]:
    """Serve the workloads that the fit does not see, at these `rates` and all at once.

    Latencies come from the stream, the throughput from the same requests all at once: in a stream the arrivals
    decide it, and everybody could predict it.
    """
    checks = []
    for seed, (workload, rate) in enumerate(rates.items(), start=10):
        for how, arriving, number, figures in (
            ("as a stream", rate, seed, LATENCIES),
            ("all at once", ALL_AT_ONCE, seed + 10, THROUGHPUT),
        ):
            say(f"Measuring {workload!r}, {how} ...")
            requests = bench.requests(workload, arriving, number, text)
            checks.append(Check(workload, requests, bench.measure(requests)[0], figures))
    return checks


def compare(check: Check, bench: Bench, fitted: Calibration, lineup: Lineup) -> list[Comparison]:
    """Predict what was measured; return figure by figure."""
    predicted = simulate(check.requests, bench.config, fitted.cost, replace(lineup, runner="absent"))
    return [
        Comparison(check.workload, name, figure(check.measured), figure(predicted))
        for name, figure in check.figures.items()
    ]


def _middle(figure: Sequence[Comparison]) -> Comparison:
    ordered = sorted(figure, key=lambda row: row.ratio)
    return replace(ordered[len(ordered) // 2], ratios=[row.ratio for row in ordered])


def _say_in_round(say: Say, prefix: str, text: str) -> None:
    say(prefix + text)
