"""Benchmarks the engine in this process: sides with different settings take turns serving the same requests."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.environment import NUM_THREADS
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm_labs.bench.backend import ALL_GREEDY, ServedRound
from mini_vllm_labs.bench.case import Case, Figures, Measured, in_turns
from mini_vllm_labs.bench.mini_vllm_backend import MiniVllmBackend
from mini_vllm_labs.bench.models import LARGE_VOCABULARY, RANDOM_MODEL, save_random_model
from mini_vllm_labs.bench.plan import longest, room_needed
from mini_vllm_labs.pictures.terminal.progress import ProgressReport
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

Part = Literal["kv_cache", "preemption", "prefix_cache", "chunking", "runner", "speculation", "async_scheduling"]
EMBEDDED, LARGER, WIDE = "embedded model", "150 M model, random weights", "Qwen3-0.6B's shape, 2 layers, random weights"
END_OF_TEXT = 2  # an id from the course's tokenizer, because grammars need an end token
SHAPES = {LARGER: RANDOM_MODEL | {"eos_token_id": END_OF_TEXT}, WIDE: LARGE_VOCABULARY}
BATCH_SIZES = (1, 4, 16, 64)
MIN_ROOM = 1024
UNCACHED = EngineConfig(enable_prefix_caching=False)  # every round computes all of its prompts
Peer = Callable[[list[TimedRequest]], Measured]


@dataclass(frozen=True)
class EngineSetting:
    """One side: its changes to the engine's config and to the requests' parameters, and the engine parts it lacks."""

    config: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    absent: Sequence[Part] = ()


class EngineSide:
    """An engine that serves rounds. Mask seconds and draft statistics cover only the last round."""

    def __init__(self, config: EngineConfig, lineup: Lineup, model: str | None) -> None:
        self.backend = MiniVllmBackend(build_engine(config, lineup, model))
        self.engine, self.clock = self.backend.engine, self.backend.clock
        self.mask_seconds = 0.0
        runner = self.backend.watched.inner
        masks: Any = runner.masks if isinstance(runner, PagedModelRunner) else None
        if masks is not None:
            masks.apply = partial(self._apply, masks.apply)

    def _apply(self, apply: Callable[..., Any], *args: Any) -> Any:
        started = time.perf_counter()
        masked = apply(*args)
        self.mask_seconds += time.perf_counter() - started
        return masked

    def serve(self, requests: Sequence[TimedRequest], params: Mapping[str, Any]) -> ServedRound:
        self.backend.params, self.mask_seconds = dict(params), 0.0
        if (statistics := self.engine.draft_statistics) is not None:
            statistics.num_drafts = 0
            statistics.num_accepted_tokens_per_pos = [0] * len(statistics.num_accepted_tokens_per_pos)
        return self.backend.serve(requests, lambda done: None, ALL_GREEDY)


@dataclass(frozen=True)
class Work:
    """A side's work in one round: `size` requests for `model`, with lengths multiplied by `scale`.

    `chat` encodes a question with the model's chat template.
    """

    size: int
    round_number: int
    model: str = EMBEDDED
    scale: float = 1.0
    chat: Callable[[str], list[int]] = lambda text: [0] * 64


@dataclass(frozen=True)
class EngineBenchmark:
    """A benchmark with one case for each combination of workload, batch size and model.

    `room` is the KV cache size as a fraction of the size that holds all requests at once. `figures` computes all of a
    round's figures except tokens per second. `applies` decides whether a side can serve a model. `peers` are other
    libraries' sides, run at batch size 1. `scale` multiplies lengths. `quick` contains the changes for a trial run.
    """

    settings: Mapping[str, EngineSetting]
    base: str
    workloads: Mapping[str, Callable[[Work], list[TimedRequest]]]
    figures: Callable[[EngineSide, list[TimedRequest], ServedRound], Figures]
    quick: Mapping[str, Any]
    batch_sizes: Sequence[int] = BATCH_SIZES
    models: Sequence[str] = (EMBEDDED,)
    config: EngineConfig = UNCACHED
    params: Mapping[str, Any] = field(default_factory=dict)
    room: float = 1.0
    scale: float = 1.0
    same_tokens: bool = True
    applies: Callable[[str, EngineSide, str], bool] = lambda name, side, model: True
    peers: Callable[[], Mapping[str, Peer]] = dict
    notes: Callable[[Case], list[str]] = lambda case: []


def measure(
    one: EngineBenchmark, lineup: Lineup, num_rounds: int, threads: int | None, report: ProgressReport
) -> Iterator[Case]:
    """Measure every case, after a warm-up of each side. With `threads=None`, the engine chooses the number of
    threads."""
    peers = one.peers()
    with tempfile.TemporaryDirectory() as folder:
        for model in one.models:
            report(f"{model}: loading")
            path = str(save_random_model(Path(folder) / "model", SHAPES[model])) if model in SHAPES else None
            if threads:
                torch.set_num_threads(threads)
            with patch.dict(os.environ, {NUM_THREADS.name: str(threads)} if threads else {}):
                # fixes the number of output tokens
                sides = build_sides(one, lineup, path)
            chat = partial(as_chat, next(iter(sides.values())).engine)
            for (workload, make), size in product(one.workloads.items(), one.batch_sizes):
                title = f"{workload}; {model}, batch {size}, threads: {threads or NUM_THREADS.get() or 'adapted'}"
                work = Work(size, 0, model, one.scale, chat)
                asked: dict[str, Peer] = {
                    name: partial(answer, one, name, side)
                    for name, side in sides.items()
                    if one.applies(name, side, model)
                }
                asked |= peers if size == 1 else {}  # transformers uses drafts for one request at a time
                runs = {name: partial(in_round, make, work, ask) for name, ask in asked.items()}
                rounds = in_turns(runs, num_rounds, num_warm_ups=1, report=report, title=title)
                case = Case.of(title, "tokens/s", one.base, rounds)
                case.notes = one.notes(case)
                yield case


def as_chat(engine: LLMEngine, text: str) -> list[int]:
    return engine.tokenizer.apply_chat_template([{"role": "user", "content": text}])


def in_round(make: Callable[[Work], list[TimedRequest]], work: Work, ask: Peer, number: int) -> Measured:
    """Serve the requests of round `number` on one side."""
    return ask(make(replace(work, round_number=number)))


def answer(one: EngineBenchmark, name: str, side: EngineSide, requests: list[TimedRequest]) -> Measured:
    """Serve requests with a side's settings."""
    served = side.serve(requests, {**one.params, **one.settings[name].params})
    token_ids = served.token_ids if one.same_tokens else None
    return Measured(served.tokens_per_second, one.figures(side, requests, served), token_ids)


def build_sides(one: EngineBenchmark, lineup: Lineup, model: str | None) -> dict[str, EngineSide]:
    """Build an engine for each setting; settings that differ only in request parameters share an engine."""
    built: dict[str, EngineSide] = {}
    sides = {}
    for name, setting in one.settings.items():
        key = f"{setting.config} {setting.absent}"
        if key not in built:
            absent: dict[str, Any] = dict.fromkeys(setting.absent, "absent")
            config = replace(one.config, **{"num_gpu_blocks": num_blocks(one), **setting.config})
            built[key] = EngineSide(config, replace(lineup, **absent), model)
        sides[name] = built[key]
    return sides


def num_blocks(one: EngineBenchmark) -> int:
    """Return the number of KV cache blocks for the largest batch of any workload, plus the null block."""
    rounds = [make(Work(max(one.batch_sizes), 0, scale=one.scale)) for make in one.workloads.values()]
    room = max(one.room * max(MIN_ROOM, *map(room_needed, rounds)), 2 * max(map(longest, rounds)))
    return cdiv(round(room), one.config.block_size) + 1
