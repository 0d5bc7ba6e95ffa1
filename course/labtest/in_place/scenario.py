"""What runs in an engine of the tests: drawn requests and settings. Nothing here is to be filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.fake_model_runner import LETTERS
from mini_vllm.sampling_params import SamplingParams

NAMES = ("1", "10", "1-0", "2", "r1", "r10", "r9", "R1", "é", "e\u0301", "r1 ", "11")
KEYS = (None, None, None, "", "t", "山", "川", "é", "x" * 300 + "1", "x" * 300 + "2")
PRIORITIES = ((0, 1, 2), (-1, 0), (10**8, 10**8 + 1, -(10**8)), (3,))
GAPS = (0.0001, 0.0004, 0.3, 5.0)


@dataclass(frozen=True)
class Arrival:
    """A request that arrives before a step, later if its id is in use then; `named` are options of `add_request`."""

    step: int
    request_id: str
    prompt: list[int]
    params: SamplingParams
    named: Mapping[str, Any]


@dataclass(frozen=True)
class Scenario:
    """An engine's input. Before the steps in `aborts` requests are aborted; those in `failures` fail once.

    `gap` is the time between two arrivals in seconds, `has_lookahead` says whether memory is asked for more.
    """

    config: EngineConfig
    arrivals: list[Arrival]
    aborts: Mapping[int, str]
    failures: frozenset[int]
    gap: float
    has_lookahead: bool

    def __str__(self) -> str:
        config = self.config
        return (
            f"{len(self.arrivals)} requests; budget {config.max_num_batched_tokens}, at most {config.max_num_seqs} "
            f"running; {config.num_gpu_blocks} blocks of {config.block_size} with block 0; policy {config.policy}"
        )


def draw_scenario(phase: int, seed: int) -> Scenario:
    """Draw the scenario of a seed for a phase."""
    rng = Random(100 * seed + phase)
    block_size, max_model_len = rng.choice((1, 2, 3, 4, 5, 8)), rng.choice((24, 40, 64))
    num_requests = 24 if seed % 10 == 9 else rng.randrange(4, 10)
    arrivals = draw_arrivals(rng, num_requests, max_model_len, block_size, is_long=seed % 10 == 8)
    ends = [min(len(new.prompt) + new.params.max_tokens, max_model_len) for new in arrivals]
    most, is_tight = cdiv(max(ends) + 4, block_size), rng.random() < 0.8
    is_chunked = rng.random() < 0.8
    config = EngineConfig(
        max_num_seqs=rng.choice((2, 3, 4, 16)),
        max_num_batched_tokens=rng.randrange(3, 34) if is_chunked else max_model_len + rng.randrange(9),
        long_prefill_token_threshold=rng.choice((0, 0, 3, 5, 12)),
        max_model_len=max_model_len,
        enable_chunked_prefill=is_chunked,
        policy="priority" if rng.random() < 0.5 else "fcfs",
        block_size=block_size,
        num_gpu_blocks=1 + most + (rng.randrange(1 + most) if is_tight else 4 * most),
        admission_guard=rng.random() < 0.5,
        check_invariants=True,
    )
    if phase > 6:
        config = with_tokens_ahead(rng, phase, config)
    return Scenario(
        config,
        arrivals,
        {rng.randrange(2, 20): new.request_id for new in rng.sample(arrivals, 2)},
        frozenset(rng.sample(range(1, 20), 1)) if rng.random() < 0.3 else frozenset(),
        rng.choice(GAPS),
        has_lookahead=rng.random() < 0.3 and phase == 2,
    )


def draw_arrivals(
    rng: Random, num_requests: int, max_model_len: int, block_size: int, *, is_long: bool
) -> list[Arrival]:
    """Draw the requests; most share a beginning, and some come again under the same id."""
    words = rng.choice((2, 10, 97, 256))
    beginnings = [[rng.randrange(words) for _ in range(block_size * rng.randrange(1, 5))] for _ in range(2)]
    names = [rng.choice(NAMES) + rng.choice(("", "", "0")) for _ in range(num_requests)]
    priorities, keys, arrivals, step = rng.choice(PRIORITIES), rng.sample(KEYS, 3), list[Arrival](), 0
    for name in names:
        own = [rng.randrange(words) for _ in range(rng.randrange(1, 20))]
        prompt = [*rng.choice((*beginnings, [])), *own][: rng.choice((max_model_len - 1, max_model_len // 2))]
        most = max_model_len if is_long else rng.randrange(1, 13)
        temperature = rng.choice((0.0, 0.0, 0.7, 1.5))
        params = SamplingParams(
            max_tokens=most,
            min_tokens=min(most, rng.randrange(4)),
            temperature=temperature,
            top_k=rng.choice((0, 2, 40)),
            top_p=rng.choice((1.0, 0.6, 0.9)),
            seed=rng.randrange(99),
            stop=rng.choice(((), (), ("e",), ("bc",))),
            stop_token_ids=tuple(rng.sample(LETTERS, rng.choice((0, 0, 3)))),
            ignore_eos=True,
        )
        named = {"priority": rng.choice(priorities), "cache_salt": rng.choice(keys), "adapter_id": rng.choice(keys)}
        arrivals.append(Arrival(step, name, prompt, params, named))
        step += rng.choice((0, 0, 0, 1, 3))
    return arrivals


def with_tokens_ahead(rng: Random, phase: int, config: EngineConfig) -> EngineConfig:
    """Return the settings with drafts, with steps in flight, or with both."""
    drafts = SpeculativeConfig(
        method=rng.choice(("ngram", "draft_model")),
        num_speculative_tokens=rng.choice((1, 2, 3, 7)),
        draft_sample_method=rng.choice(("greedy", "probabilistic")),
        prompt_lookup_max=rng.choice((1, 2, 3)),
        adaptive=False,
    )
    has_drafts, is_async = phase == 7 or rng.random() < 0.7, phase == 8 or rng.random() < 0.5
    return replace(config, speculative_config=drafts if has_drafts else None, async_scheduling=is_async)
