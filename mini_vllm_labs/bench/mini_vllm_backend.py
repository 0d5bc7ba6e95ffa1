"""Runs mini-vLLM as a backend that times its forward passes and, on request, every operator in them."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner import compiled, compiled_llama
from mini_vllm.runner.panel_product import SIGNATURES, layer_functions
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.bench.backend import Arrivals, BackendSettings, Load, OnProgress, ServedRound
from mini_vllm_labs.bench.forward_clock import ForwardClock, num_replays, paged_model
from mini_vllm_labs.runs.workloads.simulated_time import EndingRunner
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

LAYERS_IN_C = "layers in C (products, norms, rotation)"
KINDS = {
    LAYERS_IN_C: ("before_attention", "after_attention", "compute_logits"),
    "matrix products": ("linear", "addmm", "aten.mm", "aten.bmm", "aten.matmul"),
    "attention": ("scaled_dot_product", "paged_decode_attention", "paged_chunk_attention"),
    "copies of K and V": ("index_select", "index_copy", "aten.index.", "index_put", "reshape_and_cache"),
}
REST = "everything else"


@dataclass(slots=True)
class StepTimes:
    """One step: its size, and the times (in seconds) of the whole step, the runner and the forward pass.

    `num_attended` counts (token, attended token) pairs; `num_context` counts tokens whose K and V are read.
    `is_replayed` means that the forward pass was replayed from a CUDA graph; `forward_seconds` excludes such replays.
    """

    num_requests: int = 0
    num_tokens: int = 0
    num_samples: int = 0
    num_context: int = 0
    num_attended: float = 0.0
    step_seconds: float = 0.0
    runner_seconds: float = 0.0
    forward_seconds: float = 0.0
    is_replayed: bool = False


class WatchedRunner:
    """Wraps a runner and records each batch's size and the time that the runner and its model take."""

    def __init__(self, inner: ModelRunner, clock: ForwardClock) -> None:
        self.inner, self.vocab_size, self.clock = inner, inner.vocab_size, clock
        self.last = StepTimes()

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        start = time.perf_counter()
        self.last = StepTimes(
            len(batch),
            sum(row.num_scheduled_tokens for row in batch),
            sum(row.needs_token for row in batch),
            sum(row.num_computed_tokens + row.num_scheduled_tokens for row in batch),
            sum(row.num_scheduled_tokens * (row.num_computed_tokens + row.num_scheduled_tokens / 2) for row in batch),
        )
        seconds_before, num_replays_before = self.clock.seconds, num_replays(self.inner)
        output = self.inner.execute_model(batch)
        self.last.is_replayed = num_replays(self.inner) > num_replays_before
        self.last.forward_seconds = self.clock.seconds - seconds_before
        self.last.runner_seconds = time.perf_counter() - start
        return output


class MiniVllmBackend:
    """Drives the course's engine step by step. `params` are sampling settings for all requests of a round."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine, self.params, self.num_rounds = engine, dict[str, Any](), 0
        model = paged_model(engine)
        self.facts: dict[str, Any] = {"weight_bytes": weight_bytes(model)}
        self.clock = ForwardClock(model)
        self.watched = WatchedRunner(engine.runner, self.clock)
        self.lengths: dict[str, int] = {}
        end, *_ = engine.tokenizer.eos_token_ids or [0]
        engine.runner = EndingRunner(self.watched, self.lengths, end)

    @classmethod
    def open(cls, settings: BackendSettings) -> "MiniVllmBackend":
        """Build the engine with these settings."""
        return cls(build_engine(settings.engine_config(), parse_lineup(settings.lineup), settings.model or None))

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round; each request is added at its arrival time."""
        self.num_rounds += 1
        self.clock.clear()
        engine, arrivals = self.engine, Arrivals(requests, load.batch_size, on_progress)
        steps: list[dict[str, float]] = []
        while not arrivals.all_in or engine.has_unfinished_requests():
            for index in arrivals.take():
                self.add(f"{self.num_rounds}:{index}", requests[index], load.temperature)
            if not engine.has_unfinished_requests():
                arrivals.wait()
                continue
            start = time.perf_counter()
            outputs = engine.step()
            self.watched.last.step_seconds = time.perf_counter() - start
            steps.append(asdict(self.watched.last))
            for output in outputs:
                index = int(output.request_id.partition(":")[2])
                new = output.outputs[0].token_ids[len(arrivals.token_ids[index]) :]
                arrivals.note(index, new, finished=output.finished)
        return replace(arrivals.served(), steps=steps)

    def add(self, request_id: str, request: TimedRequest, temperature: float) -> None:
        """Add a request. If a request's output length is set, its output ends there with an end token, as real text
        does."""
        self.lengths[request_id] = request.output_len or 0
        ignore_eos = request.output_len is None
        settings = {"temperature": temperature, "ignore_eos": ignore_eos, **self.params}
        params = SamplingParams(max_tokens=request.max_tokens, **settings)
        self.engine.add_request(request_id, list(request.prompt_token_ids), params)


def weight_bytes(model: Any) -> int:
    """Return how many bytes a model's weights take, whether or not they are packed for C."""
    is_packed = isinstance(model, compiled_llama.CompiledLlama)
    products = [*(one for layer in model.layers for one in layer.products), model.logits] if is_packed else []
    return sum(one.nbytes for one in (*model.model.parameters(), *(product.weight for product in products)))


class OperatorStopwatch(TorchDispatchMode):
    """A context manager that adds up the seconds that each operator takes on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = perf_counter()
        result = operator(*args, **(kwargs or {}))
        self.seconds[str(operator)] += perf_counter() - start
        return result


@contextmanager
def timed_c_functions(stopwatch: OperatorStopwatch) -> Iterator[None]:
    """Also add up the time of each C function, which torch cannot see."""

    def timed(name: str, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            start = perf_counter()
            function(*arguments)
            stopwatch.seconds[name] += perf_counter() - start

        return call

    def in_layers(dtype: torch.dtype, is_int8: bool) -> SimpleNamespace:
        found = layer_functions(dtype, is_int8)
        return SimpleNamespace(**{name: timed(name, getattr(found, name)) for name in SIGNATURES})

    def in_phase6(name: str, *rest: Any) -> Callable[..., None]:
        return timed(name, compiled_function(name, *rest))

    compiled_function = compiled.compiled_function
    with (
        patch.object(compiled_llama, "layer_functions", in_layers),
        patch.object(compiled, "compiled_function", in_phase6),
    ):
        yield


class ProfiledBackend:
    """Runs mini-vLLM as a backend and also reports the seconds that each operator takes."""

    def __init__(self, settings: BackendSettings) -> None:
        self.ours = MiniVllmBackend.open(settings)
        self.facts = self.ours.facts

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round, then a second one with the same lengths and every operator timed.

        `everything else` is the time of the first round minus that of the named operators in the second. The second
        round's total is not used, because timing adds microseconds between operators.
        """
        served = self.ours.serve(requests, on_progress, load)
        with OperatorStopwatch() as stopwatch, timed_c_functions(stopwatch):
            # Reversed prompts keep their lengths and miss the prefix cache.
            turned = [replace(request, prompt_token_ids=request.prompt_token_ids[::-1]) for request in requests]
            self.ours.serve(turned, on_progress, load)
        served.seconds_by_operator = by_kind(stopwatch.seconds.items(), served.seconds)
        return served


def by_kind(operators: Iterable[tuple[str, float]], all_seconds: float) -> dict[str, float]:
    """Add up (operator, seconds) pairs by kind and drop empty kinds; `REST` is the remainder of `all_seconds`."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for name, spent in operators:
        for kind, parts in KINDS.items():
            if any(part in name for part in parts):
                seconds[kind] += spent
    found = {kind: spent for kind, spent in seconds.items() if spent}
    return {**found, REST: max(0.0, all_seconds - sum(seconds.values()))}
