"""Seeded workloads, engines to run them on, and the expected tokens.

The generator is biased towards trouble: prompts share prefixes, lengths vary, and requests arrive over several steps.
Every request is valid; bad input has its own tests.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any
from zlib import crc32

from mini_vllm import EngineConfig, RequestOutput, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.drafts.proposer import PromptLookup
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.engine.runners import install_spy

# parsing searches the file system, which takes up a third of the time needed to build a small engine
parsed = cache(parse_lineup)
MAX_MODEL_LEN = 40
PREFIXES = tuple(tuple(random.Random(seed).choices(range(1000), k=24)) for seed in range(3))


@dataclass(frozen=True)
class Expected:
    token_ids: list[int]
    text: str
    finish_reason: str
    stop_reason: int | str | None = None


@dataclass(frozen=True)
class Run:
    """The outputs of a workload, and how often each feature was used."""

    token_ids: dict[str, list[int]]
    num_preemptions: int
    num_cached_tokens: int
    num_chunks: int


def make_workload(seed: int, num_requests: int = 6) -> list[TimedRequest]:
    """Return requests that share prefixes of whole and partial blocks and arrive during the first dozen steps."""
    rng = random.Random(seed)
    arrivals = []
    step = 0
    for number in range(num_requests):
        step += rng.choice((0, 0, 1, 2, 4))
        shared = rng.choice(PREFIXES)[: rng.choice((0, 4, 7, 8, 16, 24))]
        own = rng.choices(range(1000), k=rng.randint(1, 9))
        if len(shared) >= 8 and rng.random() < 0.3:
            own = []
        arrivals.append(TimedRequest(step, f"r{number}", (*shared, *own), rng.randint(1, 10), rng.randint(0, 2)))
    return arrivals


def half_right_drafts(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    """Return the fake model's next tokens, either correct or with a mistake at a position that depends on the text."""
    # a faulty runner's tokens arrive here before they are checked
    token_ids = [int(token_id) for token_id in token_ids]
    drafts = fake_continuation(token_ids, num_speculative_tokens, LETTERS)
    place = crc32(bytes(str(token_ids), "ascii")) % (num_speculative_tokens + 2)
    return [token_id if index != place else token_id ^ 1 for index, token_id in enumerate(drafts)]


def draft_half_right(engine: LLMEngine) -> None:
    """Give an engine with phase 7 better drafts than lookup would find, because the fake model's texts do not
    repeat."""
    if isinstance(engine.runner, DraftingRunner) and isinstance(engine.runner.proposer, PromptLookup):
        engine.runner.proposer.look_up = half_right_drafts


def make_engine(config: EngineConfig, lineup: str = "solution:1-5", *, record: bool = False) -> LLMEngine:
    """Return an engine on the fake model with a clock that advances by 1 each time it is read."""
    engine = build_engine(config, parsed(lineup), record=record)
    ticks = count()
    engine.clock = lambda: float(next(ticks))
    return engine


def small_config(**settings: Any) -> EngineConfig:
    """Return a config small enough for tests to count by hand, with invariant checks on."""
    defaults: dict[str, Any] = {
        "max_model_len": MAX_MODEL_LEN,
        "max_num_batched_tokens": MAX_MODEL_LEN,
        "block_size": 4,
        "num_gpu_blocks": 101,
        "check_invariants": True,
    }
    return EngineConfig(**(defaults | settings))


def run_workload(engine: LLMEngine, workload: Sequence[TimedRequest], max_steps: int = 1000) -> Run:
    spy = install_spy(engine)
    finished: dict[str, RequestOutput] = {}
    pending = list(workload)
    for number in range(max_steps):
        while pending and pending[0].arrival_time <= number:
            add(engine, pending.pop(0))
        if not pending and not engine.has_unfinished_requests():
            break
        finished |= {output.request_id: output for output in engine.step() if output.finished}
    else:
        raise AssertionError(f"the workload did not finish within {max_steps} steps")
    metrics = [output.metrics for output in finished.values()]
    return Run(
        {request_id: output.outputs[0].token_ids for request_id, output in finished.items()},
        sum(m.num_preemptions for m in metrics),
        sum(m.num_cached_tokens for m in metrics),
        spy.num_chunks,
    )


def add(engine: LLMEngine, arrival: TimedRequest) -> None:
    params = SamplingParams(max_tokens=arrival.max_tokens)
    engine.add_request(arrival.request_id, list(arrival.prompt_token_ids), params, priority=arrival.priority)


def true_tokens(workload: Sequence[TimedRequest], max_model_len: int = MAX_MODEL_LEN) -> dict[str, list[int]]:
    """Return each request's output tokens when it runs alone, without any cache."""
    return {
        a.request_id: expect(a.prompt_token_ids, SamplingParams(a.max_tokens), max_model_len).token_ids
        for a in workload
    }


def expect(prompt: Sequence[int], params: SamplingParams, max_model_len: int = MAX_MODEL_LEN) -> Expected:
    """Return the expected output of one request: the fake model's continuation up to the first stop condition."""
    limit = min(params.max_tokens, max_model_len - len(prompt))
    token_ids = fake_continuation(prompt, limit, LETTERS)
    for end in range(1, limit + 1):
        if token_ids[end - 1] in params.stop_token_ids:
            shown = token_ids[: end if params.include_stop_str_in_output else end - 1]
            return Expected(token_ids[:end], text_of(shown), "stop", token_ids[end - 1])
        text = text_of(token_ids[:end])
        matches = [stop for stop in params.stop if text.endswith(stop)]
        if matches:  # each token is one character, so all matches end here, and the longest match began first
            stop = max(matches, key=len)
            kept = text if params.include_stop_str_in_output else text.removesuffix(stop)
            return Expected(token_ids[:end], kept, "stop", stop)
    return Expected(token_ids, text_of(token_ids), "length")


def text_of(token_ids: Sequence[int]) -> str:
    return ByteTokenizer().decode(token_ids)


def drain(
    engine: LLMEngine, max_steps: int = 3000, on_step: Callable[[list[RequestOutput]], None] | None = None
) -> dict[str, RequestOutput]:
    finished: dict[str, RequestOutput] = {}
    for _ in range(max_steps):
        if not engine.has_unfinished_requests():
            return finished
        outputs = engine.step()
        if on_step is not None:
            on_step(outputs)
        finished |= {output.request_id: output for output in outputs if output.finished}
    raise AssertionError(f"some requests are left after {max_steps} steps: {list(engine.scheduler.requests)}")
