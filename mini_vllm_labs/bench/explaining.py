"""Measures how much longer an engine step with the fake model takes when it also reports why requests wait."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver
from mini_vllm.engine.step_reasons import StepReasons
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.bench.case import Measured
from mini_vllm_labs.bench.scheduling import BLOCK_SIZE, clock, decode_prompt, per_request

NUM_REQUESTS = 64  # this many requests run, and the same number wait
NUM_STEPS = 8  # only a few, because the fake model reads the whole context at every step


class Explainer(StepObserver):
    """Explains each plan, and discards the explanation."""

    def __init__(self, reasons: StepReasons) -> None:
        self.reasons = reasons

    def after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        self.reasons.of_step(scheduler_output)


def explaining(lineup: Lineup, num_rounds: int) -> Mapping[str, Callable[[int], Measured]]:
    """Return the CPU microseconds per step of the fake model in each round, without and with reasons."""
    engines = {name: crowded(lineup, num_rounds) for name in ("not explained", "explained")}
    engine = engines["explained"]
    engine.add_observer(Explainer(StepReasons(engine.scheduler, engine.config)))
    return {name: partial(measured, engine) for name, engine in engines.items()}


def crowded(lineup: Lineup, num_rounds: int) -> LLMEngine:
    """Return an engine whose slots are all occupied until the last round."""
    config = EngineConfig(max_num_seqs=NUM_REQUESTS, max_model_len=512, num_gpu_blocks=10_000, block_size=BLOCK_SIZE)
    engine = build_engine(config, replace(lineup, runner="absent"))
    params = SamplingParams(max_tokens=NUM_STEPS * num_rounds + 8, ignore_eos=True)
    for index in range(2 * NUM_REQUESTS):
        engine.add_request(f"r{index}", decode_prompt(index), params)
    for _ in range(4):
        engine.step()  # a step's budget is enough to admit some of them
    return engine


def measured(engine: LLMEngine, number: int) -> Measured:
    start = clock()
    for _ in range(NUM_STEPS):
        engine.step()
    return per_request(clock() - start, NUM_STEPS)
