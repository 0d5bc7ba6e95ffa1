"""A real engine and the workloads it is measured on, to fit the simulator's cost model."""

import time
from collections.abc import Callable
from dataclasses import replace

from course.simulator.calibration import Calibration, MeasuredStep, fit, typical_error
from course.simulator.cost_model import CostModel
from course.simulator.experiment import sustainable_rate
from course.simulator.measurement import measure
from course.simulator.model_shapes import ModelShape
from course.simulator.served import Served
from course.simulator.synthetic_prompt import SyntheticPrompt, prompt_of
from course.simulator.workloads import WorkloadName, make_requests, scaled
from course.workloads.timed_request import TimedRequest
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine

FITTED_ON: WorkloadName = "mixed"
LIGHT_LOAD, HEAVY_LOAD = 0.4, 1.5
LONGEST_REQUEST = 12_400
NUM_WARM_UP_REQUESTS = 12
ALL_AT_ONCE = 1e9
ENGINE = EngineConfig(max_num_seqs=32, max_num_batched_tokens=256)
BYTES_PER_NUMBER = {"float32": 4, "bfloat16": 2}


class MeasurementRig:
    """A real engine, the shape of its model, and named workloads scaled to its `max_model_len`.

    Requests of the same run share prompts only where the workload shares them. Runs with another seed or `text`
    share nothing, because the prefix cache still holds the blocks of earlier runs.
    """

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

    def calibrate(self, on_progress: Callable[[str], None]) -> Calibration:
        """Fit a cost model to a measured run."""
        return self.fitted(self.steps_to_fit(self.warm_up(on_progress), on_progress))

    def warm_up(self, on_progress: Callable[[str], None]) -> float:
        """Serve a few requests twice; return an estimate of the sustainable rate, in requests per second."""
        on_progress("Warming up ...")
        self.measure(self.requests(FITTED_ON, ALL_AT_ONCE, 1, num_requests=NUM_WARM_UP_REQUESTS))
        _, steps = self.measure(self.requests(FITTED_ON, ALL_AT_ONCE, 2, num_requests=NUM_WARM_UP_REQUESTS))
        return self.sustainable_rate(FITTED_ON, self.fitted(steps).cost)

    def steps_to_fit(self, rate: float, on_progress: Callable[[str], None], text: int = 0) -> list[MeasuredStep]:
        """Measure steps at a light and a heavy load, and with all requests at once. `rate` is the sustainable rate."""
        steps: list[MeasuredStep] = []
        for seed, arriving, load in (
            (3, LIGHT_LOAD * rate, f"at {LIGHT_LOAD:.0%} of the sustainable rate"),
            (4, HEAVY_LOAD * rate, f"at {HEAVY_LOAD:.0%} of the sustainable rate"),
            (5, ALL_AT_ONCE, "all at once"),
        ):
            on_progress(f"Measuring {FITTED_ON!r}, {load} ...")
            steps += self.measure(self.requests(FITTED_ON, arriving, seed, text))[1]
        return steps

    def fitted(self, steps: list[MeasuredStep]) -> Calibration:
        """Return the cost model fitted to these steps."""
        cost = fit(steps, self.shape, BYTES_PER_NUMBER[self.config.dtype])
        return Calibration(
            model=self.shape.name,
            dtype=self.config.dtype,
            max_model_len=self.engine.scheduler.max_model_len,
            num_gpu_blocks=self.engine.scheduler.kv.num_usable_blocks + 1,
            num_steps=len(steps),
            typical_error=typical_error(cost, steps),
            cost=cost,
        )

    def measure(self, requests: list[TimedRequest]) -> tuple[Served, list[MeasuredStep]]:
        """Serve the requests with the real engine."""
        self._num_measurements += 1
        return measure(requests, self.engine, f"measurement {self._num_measurements}", self.stopwatch)

    def requests(
        self, workload: str, rate: float, seed: int, text: int = 0, num_requests: int | None = None
    ) -> list[TimedRequest]:
        """Return requests that fit the model, with prompts of their own for this `seed` and `text`."""
        drawn = make_requests(workload, num_requests or self.num_requests, rate, seed)
        number = seed + 100 * text
        return [
            replace(request, prompt_token_ids=self._renamed(prompt_of(request), number))
            for request in scaled(drawn, self.scale)
        ]

    def _renamed(self, prompt: SyntheticPrompt, number: int) -> SyntheticPrompt:
        return replace(
            prompt,
            conversation=prompt.conversation + number * self.num_requests * 100,
            shared_prefix=prompt.shared_prefix + number * 1_000,
        )

    def sustainable_rate(self, workload: str, cost: CostModel) -> float:
        """Return about how many requests of a workload the engine can serve per second."""
        return sustainable_rate(self.requests(workload, 1.0, seed=0, num_requests=1_000), self.config, cost)
