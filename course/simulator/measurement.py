"""Serve requests with a real engine, on a clock that advances only by the time of its steps."""

import random
import time
from collections.abc import Callable, Sequence

from course.simulator.calibration import MeasuredStep
from course.simulator.cost_model import StepCounts, count_batch
from course.simulator.served import Served
from course.simulator.synthetic_prompt import prompt_of
from course.workloads.simulated_time import VirtualClock
from course.workloads.timed_request import TimedRequest
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams


class CountingRunner:
    """Passes batches to a runner and keeps the counts of the last one."""

    def __init__(self, inner: ModelRunner) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.last_counts: StepCounts | None = None

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        self.last_counts = count_batch(batch)
        return self.inner.execute_model(batch)


def measure(
    requests: Sequence[TimedRequest],
    engine: LLMEngine,
    name: str,
    stopwatch: Callable[[], float] = time.perf_counter,
) -> tuple[Served, list[MeasuredStep]]:
    """Serve the requests, in order of `arrival_time`; return the latencies and the seconds of every step.

    The clock advances only while the engine steps; idle time is skipped without sleeping. `name` keeps the
    request ids of several measurements on one engine apart. Not for multi-turn workloads: the model's outputs are
    not those that a later turn repeats.
    """
    clock, runner = VirtualClock(), CountingRunner(engine.runner)
    served = Served(requests, [0.0] * len(requests), [0.0] * len(requests))
    steps: list[MeasuredStep] = []
    index_of = {f"{name} {index}": index for index in range(len(requests))}
    not_arrived, last_times = list(index_of)[::-1], dict[int, float]()
    engine.runner = runner
    try:
        while not_arrived or engine.has_unfinished_requests():
            if not engine.has_unfinished_requests():
                clock.advance_to(requests[index_of[not_arrived[-1]]].arrival_time)
            while not_arrived and requests[index_of[not_arrived[-1]]].arrival_time <= clock.now:
                _add(engine, not_arrived[-1], requests[index_of[not_arrived.pop()]])
            runner.last_counts = None
            started = stopwatch()
            outputs = engine.step()
            seconds = stopwatch() - started
            clock.advance(seconds)
            if runner.last_counts is not None:
                _add_step(served, runner.last_counts)
                steps.append(MeasuredStep(runner.last_counts, seconds))
            for output in outputs:
                index = index_of[output.request_id]
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


def _add(engine: LLMEngine, request_id: str, timed: TimedRequest) -> None:
    params = SamplingParams(max_tokens=timed.num_output_tokens, ignore_eos=True)
    prompt = prompt_in_vocabulary(timed, engine.runner.vocab_size)
    engine.add_request(request_id, prompt, params, priority=timed.priority)


def prompt_in_vocabulary(timed: TimedRequest, vocab_size: int) -> list[int]:
    """Return token ids of a real vocabulary that agree between requests exactly where their synthetic ones do."""
    prompt = prompt_of(timed)
    shared = min(prompt.num_shared_tokens, len(prompt))
    common, own = random.Random(f"shared {prompt.shared_prefix}"), random.Random(f"own {prompt.conversation}")
    vocabulary = range(vocab_size)
    return common.choices(vocabulary, k=shared) + own.choices(vocabulary, k=len(prompt) - shared)


def _add_step(served: Served, counts: StepCounts) -> None:
    served.num_steps += 1
    served.num_computed_tokens += counts.num_tokens
    served.peak_context_tokens = max(served.peak_context_tokens, counts.num_context_tokens)
    served.most_running = max(served.most_running, counts.num_requests)
