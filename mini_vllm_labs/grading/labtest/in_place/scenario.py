"""Draws the requests and settings for an engine in the tests. This file contains no tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.fake_model_runner import LETTERS
from mini_vllm.sampling_params import SamplingParams

NAMES = ("1", "10", "1-0", "2", "r1", "r10", "r9", "R1", "é", "e\u0301", "r1 ", "11")
# A scenario's salts and adapters. Concatenating, truncating or normalising them would make two of them equal.
KEYS: Sequence[Sequence[str | None]] = (
    (None, None, ""),
    (None, "a", "ab", "b", "bc", "c"),
    (None, "山", "川"),
    ("x" * 300 + "1", "x" * 300 + "2"),
    ("é", "e\u0301", "e"),
    (None, "ﬁ", "fi"),
)
PRIORITIES = ((0, 1, 2), (-1, 0, 101, 102), (10**8, 10**8 + 1, -(10**8)), (3,))
GAPS = (0.0001, 0.0004, 0.3, 5.0)


@dataclass(frozen=True)
class Arrival:
    """A request that arrives before a step, or later if its id is in use; `named` are `add_request` options."""

    step: int
    request_id: str
    prompt: list[int]
    params: SamplingParams
    named: Mapping[str, Any]


@dataclass(frozen=True)
class EngineInput:
    """An engine's input. `aborts` lists aborts by step; the forward pass `failing_batch` raises an error.

    `gap` is the time between two arrivals in seconds.
    """

    config: EngineConfig
    arrivals: list[Arrival]
    aborts: Mapping[int, str]
    failing_batch: int
    gap: float

    def __str__(self) -> str:
        config, drafts = self.config, self.config.speculative_config
        return (
            f"{len(self.arrivals)} requests; budget {config.max_num_batched_tokens}, at most {config.max_num_seqs} "
            f"running; {config.num_gpu_blocks} blocks of {config.block_size} with block 0; policy {config.policy};\n "
            f" threshold {config.long_prefill_token_threshold}, max_model_len {config.max_model_len}, chunked prefill "
            f"{config.enable_chunked_prefill}, guard {config.admission_guard}; drafts: "
            f"{drafts.num_speculative_tokens if drafts else 0}, a step in flight: {config.async_scheduling}"
        )


def draw_scenario(phase: int, seed: int) -> EngineInput:
    """Draw a phase's scenario from a seed; every fifth scenario has many requests, and every tenth uses large
    numbers."""
    rng, is_large = Random(100 * seed + phase), seed % 10 == 3
    block_size = 8 if is_large else rng.choice((1, 2, 3, 4, 5, 8))
    max_model_len = (150 if phase == 6 else 600) if is_large else rng.choice((24, 40, 64))
    num_requests = 24 if seed % 5 == 4 else rng.randrange(4, 13)
    arrivals = draw_arrivals(rng, phase, num_requests, max_model_len, block_size)
    ends = [min(len(new.prompt) + new.params.max_tokens, max_model_len) for new in arrivals]
    most, is_tight = cdiv(max(ends) + 4, block_size), rng.random() < 0.8
    is_chunked = rng.random() < (0.6 if phase == 5 else 0.8)
    # a single request's share may need the memory of several victims
    largest = max_model_len if is_large else 64 if phase == 3 else 34
    config = EngineConfig(
        max_num_seqs=rng.choice((2, 3, 5, 16)),
        max_num_batched_tokens=rng.randrange(3, largest) if is_chunked else max_model_len + rng.randrange(9),
        long_prefill_token_threshold=rng.choice((0, 0, 3, 5, 12)),
        max_model_len=max_model_len,
        enable_chunked_prefill=is_chunked,
        policy="priority" if rng.random() < 0.5 else "fcfs",
        block_size=block_size,
        num_gpu_blocks=1 + most + (rng.randrange(1 + most) if is_tight else 4 * most),
        admission_guard=rng.random() < 0.8,
        check_invariants=True,
    )
    return EngineInput(
        with_tokens_ahead(rng, phase, config),
        arrivals,
        {new.step + rng.randrange(1, 9): new.request_id for new in rng.sample(arrivals, len(arrivals) // 3)},
        rng.randrange(2, 20) if rng.random() < 0.3 else 0,
        rng.choice(GAPS),
    )


def draw_arrivals(rng: Random, phase: int, num_requests: int, max_model_len: int, block_size: int) -> list[Arrival]:
    """Draw the requests; most share a prefix, and some return with the same id."""
    words, is_long = rng.choice((2, 10, 97, 256 if phase == 6 else 1000)), rng.random() < 0.1
    beginnings = [[rng.randrange(words) for _ in range(block_size * rng.randrange(1, 5))] for _ in range(2)]
    longest = 2 * max_model_len // 3 if max_model_len > 64 else 20
    priorities, keys, arrivals, step = rng.choice(PRIORITIES), rng.choice(KEYS), list[Arrival](), 0
    for _ in range(num_requests):
        name = rng.choice(NAMES) + rng.choice(("", "", "0"))
        own = [rng.randrange(words) for _ in range(rng.randrange(1, longest))]
        prompt = [*rng.choice((*beginnings, [])), *own][: rng.choice((max_model_len - 1, max_model_len // 2))]
        most = min(max_model_len, 64) if is_long else rng.randrange(1, 13)
        params = SamplingParams(
            max_tokens=most,
            min_tokens=min(most, rng.randrange(4)),
            temperature=rng.choice((0.0, 0.0, 0.7, 1.5)),
            top_k=rng.choice((0, 2, 40)),
            top_p=rng.choice((1.0, 0.6, 0.9)),
            seed=rng.randrange(99),
            stop=rng.choice(((), (), ("e",), ("bc",))),
            stop_token_ids=tuple(rng.sample(LETTERS, rng.choice((0, 0, 3)))),
            ignore_eos=True,
        )
        salt, adapter = copy_of(rng.choice(keys)), copy_of(rng.choice(keys))
        named = {"priority": rng.choice(priorities), "cache_salt": salt, "adapter_id": adapter}
        arrivals.append(Arrival(step, "".join(list(name)), prompt, params, named))
        step += rng.choice((0, 0, 0, 1, 3))
    return arrivals


def copy_of(text: str | None) -> str | None:
    return text and "".join(list(text))


def with_tokens_ahead(rng: Random, phase: int, config: EngineConfig) -> EngineConfig:
    """Return the settings; except in phase 6, they often include drafts, steps in flight, or both."""
    drafts = SpeculativeConfig(
        method=rng.choice(("ngram", "draft_model")),
        num_speculative_tokens=rng.choice((1, 2, 3, 7)),
        draft_sample_method=rng.choice(("greedy", "probabilistic")),
        prompt_lookup_max=rng.choice((1, 2, 3)),
        adaptive=False,
    )
    shares = {2: (0.6, 0.3), 6: (0.0, 0.0), 7: (1.0, 0.5), 8: (0.7, 1.0)}.get(phase, (0.3, 0.3))
    has_drafts, is_async = (rng.random() < share for share in shares)
    return replace(
        config,
        speculative_config=drafts if has_drafts else None,
        async_scheduling=is_async,
        # The guard's rule ignores slots that a running request holds ahead of its tokens.
        admission_guard=config.admission_guard and not has_drafts and not is_async,
    )
