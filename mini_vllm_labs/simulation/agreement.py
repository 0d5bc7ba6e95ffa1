"""Compares the simulation with the real engine: fits the cost model on one workload and predicts three others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mini_vllm.assembly.lineup import Lineup
from mini_vllm_labs.simulation.calibration import Calibration
from mini_vllm_labs.simulation.measured_engine import ALL_AT_ONCE, MeasuredEngine
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.workloads import WorkloadName

CHECKED_ON: tuple[WorkloadName, ...] = ("burst", "documents", "shared-prefix")
CHECK_LOAD = 0.5
TOLERANCE = 0.15
NUM_ROUNDS = 5
"""Rounds of fit and comparison. The median ratio counts, because computers are slow for some seconds at times."""
LATENCIES: dict[str, Callable[[Served], float]] = {
    "median TTFT": lambda served: served.time_to_first_token([50])[0],
    "median ITL": lambda served: served.inter_token_latency([50])[0],
}
THROUGHPUT: dict[str, Callable[[Served], float]] = {"tokens/s": lambda served: served.output_tokens_per_second}


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """One figure for one workload, measured and predicted, in seconds or tokens per second.

    If this is the median of several rounds, `ratios` contains the ratios of all rounds in ascending order.
    """

    workload: str
    figure: str
    measured: float
    predicted: float
    ratios: Sequence[float] = ()

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    @property
    def agrees(self) -> bool:
        """Whether the prediction is within `TOLERANCE` of the measurement."""
        return abs(self.ratio - 1) <= TOLERANCE


def calibrate_and_compare(
    engine: MeasuredEngine, lineup: Lineup, on_progress: Callable[[str], None], num_rounds: int = NUM_ROUNDS
) -> tuple[Calibration, list[FigureComparison]]:
    """Fit and compare in rounds; return the fit with the smallest error, and each figure's median round.

    All rounds use the arrival rates from a first, rough fit.
    """
    rate = engine.warm_up(on_progress)
    rough = engine.fitted(engine.steps_to_fit(rate, on_progress)).cost
    rates = {workload: CHECK_LOAD * engine.sustainable_rate(workload, rough) for workload in CHECKED_ON}
    rounds = []
    for number in range(num_rounds):
        # `prefix` is a default argument, because a closure would read the loop variable only when it is called.
        def report(text: str, prefix: str = f"Round {number + 1} of {num_rounds}") -> None:
            on_progress(f"{prefix}: {text}")

        rounds.append(one_round(engine, lineup, report, rate, rates, text=1 + 2 * number))
    best = min((fitted for fitted, _ in rounds), key=lambda fitted: fitted.typical_error)
    return best, [median_of(figure) for figure in zip(*(compared for _, compared in rounds), strict=True)]


def one_round(
    engine: MeasuredEngine,
    lineup: Lineup,
    on_progress: Callable[[str], None],
    rate: float,
    rates: Mapping[WorkloadName, float],
    text: int,
) -> tuple[Calibration, list[FigureComparison]]:
    """Serve the workloads that are not part of the fit, and predict their figures.

    Latencies are measured on a stream at these `rates`. Throughput is measured with all requests at once, because only
    the arrivals determine a stream's throughput. The steps used for the fit are measured both before and after the
    workloads, so that a temporary slowdown of the computer affects both the fit and the figures.
    """
    steps, checks = engine.steps_to_fit(rate, on_progress, text), []
    # Seeds start at 10, because lower seeds are used for the fits.
    for seed, (workload, arriving) in enumerate(rates.items(), start=10):
        for how, asked, number, figures in (
            ("as a stream", arriving, seed, LATENCIES),
            ("all at once", ALL_AT_ONCE, seed + 10, THROUGHPUT),
        ):
            on_progress(f"Measuring {workload!r}, {how} ...")
            requests = engine.requests(workload, asked, number, text)
            checks.append((workload, requests, figures, engine.measure(requests)[0]))
    fitted = engine.fitted(steps + engine.steps_to_fit(rate, on_progress, text + 1))
    on_progress("Predicting ...")
    compared = []
    for workload, requests, figures, measured in checks:
        predicted = simulate(requests, engine.config, fitted.cost, replace(lineup, runner="absent"))
        compared += [FigureComparison(workload, name, of(measured), of(predicted)) for name, of in figures.items()]
    return fitted, compared


def median_of(figure: Sequence[FigureComparison]) -> FigureComparison:
    ordered = sorted(figure, key=lambda row: row.ratio)
    return replace(ordered[len(ordered) // 2], ratios=[row.ratio for row in ordered])
