"""Measures a real engine step by step on named workloads, with a clock that advances only during steps."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.runs.workloads.simulated_time import VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.calibration import Calibration, MeasuredStep, fit, typical_error
from mini_vllm_labs.simulation.cost_model import CostModel, StepCounts, count_batch
from mini_vllm_labs.simulation.experiment import sustainable_rate
from mini_vllm_labs.simulation.model_shapes import ModelShape
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.workloads import WorkloadName, make_requests, prompt_of, scaled

FITTED_ON: WorkloadName = "mixed"
LIGHT_LOAD, HEAVY_LOAD = 0.4, 1.5  # one each for small steps and full steps
LONGEST_REQUEST = 12_400  # in tokens: the longest document and its longest answer
NUM_WARM_UP_REQUESTS = 12
ALL_AT_ONCE = 1e9  # in requests per second: all requests arrive before the first step ends
ENGINE = EngineConfig(max_num_seqs=32, max_num_batched_tokens=256)
BYTES_PER_NUMBER = {"float32": 4, "bfloat16": 2}


class CountingRunner:
    """Passes batches to a runner, and stores the counts of the last batch."""

    def __init__(self, inner: ModelRunner) -> None:
        self.inner, self.vocab_size = inner, inner.vocab_size
        self.last_counts: StepCounts | None = None

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        self.last_counts = count_batch(batch)
        return self.inner.execute_model(batch)


def measure(
    requests: Sequence[TimedRequest], engine: LLMEngine, name: str, stopwatch: Callable[[], float] = time.perf_counter
) -> tuple[Served, list[MeasuredStep]]:
    """Serve the requests in order of `arrival_time`; return the latencies and the seconds of every step.

    The clock advances only while the engine steps; idle time is skipped without sleeping. `name` distinguishes the
    request ids of several measurements on the same engine. Multi-turn workloads are unsuitable, because later turns
    would not repeat the model's real outputs.
    """
    clock, runner = VirtualClock(), CountingRunner(engine.runner)
    served = Served(requests, [0.0] * len(requests), [0.0] * len(requests))
    steps: list[MeasuredStep] = []
    next_index, last_times = 0, dict[int, float]()
    engine.runner = runner
    try:
        while next_index < len(requests) or engine.has_unfinished_requests():
            if not engine.has_unfinished_requests():
                clock.advance_to(requests[next_index].arrival_time)
            while next_index < len(requests) and requests[next_index].arrival_time <= clock.now:
                timed = requests[next_index]
                params = SamplingParams(max_tokens=timed.num_output_tokens, ignore_eos=True)
                prompt = prompt_in_vocabulary(timed, runner.vocab_size)
                engine.add_request(f"{name} {next_index}", prompt, params, priority=timed.priority)
                next_index += 1
            runner.last_counts = None
            started = stopwatch()
            outputs = engine.step()
            seconds = stopwatch() - started
            clock.advance(seconds)
            if (counts := runner.last_counts) is not None:
                steps.append(MeasuredStep(counts, seconds))
                served.num_steps += 1
                served.num_computed_tokens += counts.num_tokens
                served.peak_context_tokens = max(served.peak_context_tokens, counts.num_context_tokens)
                served.most_running = max(served.most_running, counts.num_requests)
            for output in outputs:
                index = int(output.request_id.rpartition(" ")[2])
                if index in last_times:
                    served.gaps.append((clock.now - last_times[index], 1))
                else:
                    served.first_token_times[index] = clock.now
                last_times[index] = served.finished_times[index] = clock.now
                if output.finished:
                    served.num_preemptions += output.metrics.num_preemptions
    finally:
        engine.runner = runner.inner
    return served, steps


def prompt_in_vocabulary(timed: TimedRequest, vocab_size: int) -> list[int]:
    """Return real token ids that agree between requests exactly where their synthetic ids do."""
    prompt = prompt_of(timed)
    shared = min(prompt.num_shared_tokens, len(prompt))
    common, own = random.Random(f"shared {prompt.shared_prefix}"), random.Random(f"own {prompt.conversation}")
    vocabulary = range(vocab_size)
    return common.choices(vocabulary, k=shared) + own.choices(vocabulary, k=len(prompt) - shared)


class MeasuredEngine:
    """A real engine, the shape of its model, and named workloads scaled to its `max_model_len`.

    Requests of the same run share prompts only where the workload shares them. Runs with a different seed or `text`
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
        """Serve a few requests twice, and estimate the sustainable rate in requests per second."""
        on_progress("Warming up ...")
        self.measure(self.requests(FITTED_ON, ALL_AT_ONCE, 1, num_requests=NUM_WARM_UP_REQUESTS))
        _, steps = self.measure(self.requests(FITTED_ON, ALL_AT_ONCE, 2, num_requests=NUM_WARM_UP_REQUESTS))
        return self.sustainable_rate(FITTED_ON, self.fitted(steps).cost)

    def steps_to_fit(self, rate: float, on_progress: Callable[[str], None], text: int = 0) -> list[MeasuredStep]:
        """Measure steps at light load, at heavy load, and with all requests at once. `rate` is the sustainable rate."""
        steps: list[MeasuredStep] = []
        for seed, arriving in enumerate((LIGHT_LOAD * rate, HEAVY_LOAD * rate, ALL_AT_ONCE), start=3):
            load = "all at once" if arriving == ALL_AT_ONCE else f"at {arriving / rate:.0%} of the sustainable rate"
            on_progress(f"Measuring {FITTED_ON!r}, {load} ...")
            steps += self.measure(self.requests(FITTED_ON, arriving, seed, text))[1]
        return steps

    def fitted(self, steps: list[MeasuredStep]) -> Calibration:
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
        self._num_measurements += 1
        return measure(requests, self.engine, f"measurement {self._num_measurements}", self.stopwatch)

    def requests(
        self, workload: str, rate: float, seed: int, text: int = 0, num_requests: int | None = None
    ) -> list[TimedRequest]:
        """Return requests that fit the model, with prompts unique to this `seed` and `text`."""
        number, requests = seed + 100 * text, []
        for request in scaled(make_requests(workload, num_requests or self.num_requests, rate, seed), self.scale):
            prompt = prompt_of(request)
            conversation = prompt.conversation + number * self.num_requests * 100
            own = replace(prompt, conversation=conversation, shared_prefix=prompt.shared_prefix + number * 1_000)
            requests.append(replace(request, prompt_token_ids=own))
        return requests

    def sustainable_rate(self, workload: str, cost: CostModel) -> float:
        """Estimate how many requests of a workload the engine can serve per second."""
        return sustainable_rate(self.requests(workload, 1.0, seed=0, num_requests=1_000), self.config, cost)
