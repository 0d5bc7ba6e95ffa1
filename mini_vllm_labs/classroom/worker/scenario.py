"""Runs a scenario on a whole engine. In a worker the engine consists of the learner's phases."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from mini_vllm import EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step_record import StepRecord
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.engine_parts import EngineParts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.runner.fake_model_runner import LETTERS, FakeModelRunner
from mini_vllm_labs.classroom.worker.answers import Describer, Json, raised

MAX_STEPS = 400


@dataclass(frozen=True, slots=True)
class ScenarioRequest:
    """A request that arrives before step `arrival_step`."""

    arrival_step: int
    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    priority: int = 0
    cache_salt: str | None = None
    adapter_id: str | None = None
    stop_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class EngineScenario:
    """The input to an engine run. `aborts` contains (step, request id); each abort happens before its step."""

    config: EngineConfig
    arrivals: tuple[ScenarioRequest, ...]
    aborts: tuple[tuple[int, str], ...] = ()


class ScenarioRun:
    """Runs a scenario on a lineup's engine step by step; parts may be replaced before the first step."""

    def __init__(self, scenario: EngineScenario, lineup: str, runner: ModelRunner | None = None) -> None:
        config, evicted, ticks = scenario.config, list[int](), count()
        assert config.num_gpu_blocks is not None
        self.scheduler: Scheduler = build_scheduler(config, parse_lineup(lineup), on_evict=evicted.append)
        self.recorder = TraceRecorder(self.scheduler, evicted)
        size = self.scheduler.kv.block_size
        parts = EngineParts(
            config,
            self.scheduler,
            runner or FakeModelRunner(config.num_gpu_blocks * config.block_size // size + 1, size, LETTERS),
            ByteTokenizer(),
            [self.recorder],
            clock=lambda: float(next(ticks)),
        )
        self.engine = LLMEngine(parts)
        self._scenario = scenario
        self._arriving = list(scenario.arrivals)

    @property
    def finished(self) -> bool:
        return not self._arriving and not self.engine.has_unfinished_requests()

    def trace(self) -> list[StepRecord]:
        """Run to the end and return all steps. Raises `StalledError`."""
        while not self.finished and len(self.recorder.steps) < MAX_STEPS:
            self.step()
        return self.recorder.steps

    def step(self) -> None:
        """Add this step's arrivals, apply its aborts, and run one step."""
        number, scheduler = len(self.recorder.steps), self.scheduler
        while self._arriving and self._arriving[0].arrival_step <= number:
            new = self._arriving.pop(0)
            params = SamplingParams(
                max_tokens=new.max_tokens, ignore_eos=True, stop_token_ids=new.stop_token_ids, seed=number
            )
            self.engine.add_request(
                new.request_id,
                list(new.prompt_token_ids),
                params,
                priority=new.priority,
                cache_salt=new.cache_salt,
                adapter_id=new.adapter_id,
            )
        for step, request_id in self._scenario.aborts:
            if step == number:
                self.engine.abort_request(request_id)
        rate_before = scheduler.prefix_cache.hit_rate()
        self.engine.step()
        alive = scheduler.requests.values()
        self.recorder.steps[-1]["detail"] |= {
            "hit rate": [round(rate, 6) for rate in (rate_before, scheduler.prefix_cache.hit_rate())],
            "usage": round(getattr(scheduler.kv, "usage", 0.0), 6),
            "preemptions": {request.request_id: request.num_preemptions for request in alive},
            "cached tokens": {request.request_id: request.num_cached_tokens for request in alive},
        }


def play_together(files: Mapping[int, Any], scenario: EngineScenario, lineup: str) -> list[Json]:
    """Run a scenario on the phases of `lineup`; return its steps, then whether it finished, or the exception."""
    steps: list[StepRecord] = []
    try:
        run = ScenarioRun(scenario, lineup)
        steps = run.recorder.steps
        run.trace()
        end: Json = run.finished
    except BaseException as error:
        end = raised(error)
    return [*map(Describer(), steps), end]
