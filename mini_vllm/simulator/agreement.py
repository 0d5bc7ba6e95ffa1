"""Does the simulation say what the real engine does? Fit it on one workload, compare on three others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mini_vllm.config import EngineConfig
from mini_vllm.engine import LLMEngine
from mini_vllm.lineup import Lineup
from mini_vllm.simulator.calibration import Calibration, MeasuredStep, fit, typical_error
from mini_vllm.simulator.cost_model import CostModel
from mini_vllm.simulator.experiment import bearable_rate
from mini_vllm.simulator.measurement import measure
from mini_vllm.simulator.model_shapes import ModelShape
from mini_vllm.simulator.served import Served, percentiles, weighted_percentiles
from mini_vllm.simulator.simulation import simulate
from mini_vllm.simulator.workloads import TimedRequest, WorkloadName, make_requests, scaled

FITTED_ON: WorkloadName = "mixed"
CHECKED_ON: tuple[WorkloadName, ...] = ("burst", "documents", "shared-prefix")
LIGHT_LOAD, HEAVY_LOAD, CHECK_LOAD = 0.4, 1.5, 0.5
TOLERANCE = 0.15
LONGEST_REQUEST = 12_400
NUM_WARM_UP_REQUESTS = 12
NUM_ROUNDS = 3
"""Fit and comparison are made so often, and the middle ratio counts: computers have slow phases of some seconds."""
ALL_AT_ONCE = 1e9
ENGINE = EngineConfig(max_num_seqs=32, max_num_batched_tokens=256)
BYTES_PER_NUMBER = {"float32": 4, "bfloat16": 2}

LATENCIES: dict[str, Callable[[Served], float]] = {
    "median TTFT": lambda served: percentiles(served.times_to_first_token, [50])[0],
    "median ITL": lambda served: weighted_percentiles(served.gaps, [50])[0],
}
THROUGHPUT: dict[str, Callable[[Served], float]] = {"tokens/s": lambda served: served.output_tokens_per_second}


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


class Bench:
    """A real engine, the shape of its model, and named workloads with lengths that it can take."""

    def __init__(
        self,
        engine: LLMEngine,
        shape: ModelShape,
        num_requests: int,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.engine, self.shape, self.num_requests, self.stopwatch = engine, shape, num_requests, stopwatch
        scheduler = engine.scheduler
        self.config = engine.config.resolved(scheduler.max_model_len, scheduler.kv.num_usable_blocks + 1)
        self.scale = min(1.0, scheduler.max_model_len / LONGEST_REQUEST)
        self._num_measurements = 0

    def calibrate(self, say: Callable[[str], None], round_number: int = 0) -> Calibration:
        """Fit a cost model to a measured run, half of it with few requests at once and half with many."""
        say("Warming up ...")
        self.measure(self._requests(FITTED_ON, ALL_AT_ONCE, NUM_WARM_UP_REQUESTS, 1, round_number))
        _, rough_steps = self.measure(self._requests(FITTED_ON, ALL_AT_ONCE, NUM_WARM_UP_REQUESTS, 2, round_number))
        rate = self._bearable_rate(FITTED_ON, self._fit(rough_steps))
        steps: list[MeasuredStep] = []
        for seed, load in ((3, LIGHT_LOAD), (4, HEAVY_LOAD)):
            say(f"Measuring {FITTED_ON!r} at {load:.0%} of the bearable rate ...")
            steps += self.measure(self._requests(FITTED_ON, load * rate, self.num_requests, seed, round_number))[1]
        cost = self._fit(steps)
        return Calibration(
            model=self.shape.name,
            dtype=self.config.dtype,
            max_model_len=self.engine.scheduler.max_model_len,
            num_gpu_blocks=self.engine.scheduler.kv.num_usable_blocks + 1,
            num_steps=len(steps),
            typical_error=typical_error(cost, steps),
            cost=cost,
        )

    def compare(
        self, cost: CostModel, lineup: Lineup, say: Callable[[str], None], round_number: int = 0
    ) -> list[Comparison]:
        """Measure the workloads that the fit has not seen, predict them, and return figure by figure.

        Latencies come from a stream at half of what can be borne, the throughput from the same requests all at
        once: in a stream the arrivals decide it, and everybody could predict it.
        """
        found = []
        for seed, workload in enumerate(CHECKED_ON, start=10):
            rate = CHECK_LOAD * self._bearable_rate(workload, cost)
            for how, arriving, number, figures in (
                ("as a stream", rate, seed, LATENCIES),
                ("all at once", ALL_AT_ONCE, seed + 10, THROUGHPUT),
            ):
                requests = self._requests(workload, arriving, self.num_requests, number, round_number)
                say(f"Measuring and predicting {workload!r}, {how} ...")
                measured, _ = self.measure(requests)
                predicted = simulate(requests, self.config, cost, replace(lineup, runner="absent"))
                for name, figure in figures.items():
                    found.append(Comparison(workload, name, figure(measured), figure(predicted)))
        return found

    def measure(self, requests: list[TimedRequest]) -> tuple[Served, list[MeasuredStep]]:
        """Serve the requests with the real engine; the cache may still hold what an earlier run shared."""
        self._num_measurements += 1
        return measure(requests, self.engine, f"measurement {self._num_measurements}", self.stopwatch)

    def _fit(self, steps: list[MeasuredStep]) -> CostModel:
        return fit(steps, self.shape, BYTES_PER_NUMBER[self.config.dtype])

    def _requests(
        self, workload: str, rate: float, num_requests: int, seed: int, round_number: int = 0
    ) -> list[TimedRequest]:
        """Return requests whose text no other seed's or round's requests share."""
        requests = scaled(make_requests(workload, num_requests, rate, seed), self.scale)
        text = seed + 100 * round_number
        return [
            replace(
                request,
                conversation=request.conversation + text * self.num_requests * 100,
                shared_prefix=request.shared_prefix + text * 1_000,
            )
            for request in requests
        ]

    def _bearable_rate(self, workload: str, cost: CostModel) -> float:
        return bearable_rate(self._requests(workload, 1.0, 1_000, seed=0), self.config, cost)


def calibrate_and_compare(
    bench: Bench, lineup: Lineup, say: Callable[[str], None], num_rounds: int = NUM_ROUNDS
) -> tuple[Calibration, list[Comparison]]:
    """Fit and compare in rounds; return the fit with the smallest error, and each figure's middle round by ratio."""
    fits, rounds = [], []
    for number in range(num_rounds):
        say_round = partial(_say_in_round, say, f"Round {number + 1} of {num_rounds}: ")
        fits.append(bench.calibrate(say_round, number))
        rounds.append(bench.compare(fits[-1].cost, lineup, say_round, number))
    return min(fits, key=lambda fitted: fitted.typical_error), list(map(_middle, zip(*rounds, strict=True)))


def _middle(figure: Sequence[Comparison]) -> Comparison:
    ordered = sorted(figure, key=lambda row: row.ratio)
    return replace(ordered[len(ordered) // 2], ratios=[row.ratio for row in ordered])


def _say_in_round(say: Callable[[str], None], prefix: str, text: str) -> None:
    say(prefix + text)
