"""What drafts bring and cost: the same chats without them, with a fixed number of them, and with an adapted one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams

BATCH_SIZES = (1, 4, 16, 64)
COPYING, STORIES = "copies from its prompt", "tells a story"
WITHOUT, FIXED, ADAPTIVE, MODEL = "no drafts", "4 drafts", "adaptive", "draft model"
PLAIN_PEER, LOOKUP_PEER, ASSISTED_PEER = "transformers", "transformers, lookup", "transformers, assisted"
DRAFTS = SpeculativeConfig("ngram", num_speculative_tokens=4)
SETTINGS = {
    WITHOUT: None,
    FIXED: replace(DRAFTS, adaptive=False),
    ADAPTIVE: replace(DRAFTS, adaptive=True, disable_by_batch_size=8),
    MODEL: replace(DRAFTS, method="draft_model", adaptive=True, disable_by_batch_size=8),
}
NAMES = ("Anna", "Ben", "Leo", "Mia", "Tom", "Sara", "Max", "Lily")
THINGS = ("lamp", "cup", "ball", "book", "boat", "cake", "hat", "box", "tree", "bird", "cat", "dog", "fish", "bear")
MAX_TOKENS = 80


@dataclass
class Measured:
    """One setting on one workload: the fastest round in seconds, its tokens, and what became of the drafts."""

    seconds: float
    token_ids: list[list[int]]
    num_steps: int = 0
    num_drafts: int = 0
    accepted_per_pos: list[int] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.token_ids))

    @property
    def tokens_per_second(self) -> float:
        return self.num_tokens / self.seconds


@dataclass(frozen=True)
class Case:
    """A workload at a batch size, and its measurements by setting or peer."""

    workload: str
    batch_size: int
    measured: dict[str, Measured]

    @property
    def same_tokens(self) -> bool:
        """Whether every setting has said the same."""
        first, *others = (one.token_ids for one in self.measured.values())
        return all(tokens == first for tokens in others)

    def speedup(self, name: str, base: str = WITHOUT) -> float:
        return self.measured[name].tokens_per_second / self.measured[base].tokens_per_second

    def record(self) -> dict[str, Any]:
        """Return the figures as JSON, without the tokens."""
        measured = {
            name: {
                "tokens_per_second": one.tokens_per_second,
                "num_steps": one.num_steps,
                "num_tokens": one.num_tokens,
                "num_drafts": one.num_drafts,
                "accepted_per_pos": one.accepted_per_pos,
            }
            for name, one in self.measured.items()
        }
        return {
            "workload": self.workload,
            "batch_size": self.batch_size,
            "same_tokens": self.same_tokens,
            "measured": measured,
        }


def questions(workload: str, count: int) -> list[str]:
    """Return what the chats ask; the model answers with a list from the question, or with a text of its own."""
    rng = Random(workload)
    if workload == COPYING:
        return [f"Repeat these words:\n{', '.join(rng.sample(THINGS, 8))}." for _ in range(count)]
    return [f"Tell me a story about {rng.choice(NAMES)} and a {rng.choice(THINGS)}." for _ in range(count)]


def measure_speculative(
    lineup: Lineup, batch_sizes: Sequence[int], num_rounds: int, report: Callable[[str], object]
) -> Iterator[Case]:
    """Measure each workload at each batch size; settings and peers take turns, and the fastest round counts."""
    engines = {name: make_engine(lineup, speculative) for name, speculative in SETTINGS.items()}
    peer = Transformers()
    for workload, batch_size in product((COPYING, STORIES), batch_sizes):
        report(f"{workload}, batch {batch_size}")
        template = engines[WITHOUT].tokenizer.apply_chat_template
        prompts = [template([{"role": "user", "content": text}]) for text in questions(workload, batch_size)]
        runs: dict[str, Callable[[], Measured]] = {
            name: partial(serve, engine, prompts) for name, engine in engines.items()
        }
        if batch_size == 1:  # transformers drafts for one request at a time
            runs |= {name: partial(peer.generate, prompts[0], **options) for name, options in peer.settings.items()}
        measured: dict[str, Measured] = {}
        for number in range(num_rounds + 1):  # the first one warms up
            for name, run in runs.items():
                result = run()
                if number == 1 or (number > 1 and result.seconds < measured[name].seconds):
                    measured[name] = result
        yield Case(workload, batch_size, measured)


def make_engine(lineup: Lineup, speculative_config: SpeculativeConfig | None) -> LLMEngine:
    """Return an engine on the embedded model. No prompt is cached, so that every round computes all of it."""
    config = EngineConfig(
        num_gpu_blocks=1024,
        enable_prefix_caching=False,
        max_num_seqs=max(BATCH_SIZES),
        speculative_config=speculative_config,
    )
    return build_engine(config, lineup)


def serve(engine: LLMEngine, prompts: Sequence[list[int]]) -> Measured:
    """Answer all prompts at once."""
    statistics, params = engine.draft_statistics, SamplingParams(max_tokens=MAX_TOKENS)
    before = (statistics.num_drafts, list(statistics.num_accepted_tokens_per_pos)) if statistics else (0, [])
    started, num_steps = time.perf_counter(), 0
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), prompt, params)
    token_ids: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        num_steps += 1
        token_ids |= {output.request_id: output.outputs[0].token_ids for output in engine.step() if output.finished}
    seconds = time.perf_counter() - started
    measured = Measured(seconds, [token_ids[str(number)] for number in range(len(prompts))], num_steps)
    if statistics:
        measured.num_drafts = statistics.num_drafts - before[0]
        pairs = zip(statistics.num_accepted_tokens_per_pos, before[1], strict=True)
        measured.accepted_per_pos = [now - then for now, then in pairs]
    return measured


class Transformers:
    """The embedded model in transformers: greedy `generate`, plain, with its own prompt lookup, or assisted."""

    def __init__(self) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        from mini_vllm.runner.loading import EMBEDDED_DRAFT_MODEL, EMBEDDED_MODEL

        self.torch = torch
        self.model: Any = AutoModelForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32)
        assistant: Any = AutoModelForCausalLM.from_pretrained(EMBEDDED_DRAFT_MODEL, dtype=torch.float32)
        assistant.generation_config.num_assistant_tokens = DRAFTS.num_speculative_tokens
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        self.settings: dict[str, dict[str, Any]] = {
            PLAIN_PEER: {},
            LOOKUP_PEER: {"prompt_lookup_num_tokens": DRAFTS.num_speculative_tokens},
            ASSISTED_PEER: {"assistant_model": assistant},
        }

    def generate(self, prompt: list[int], **options: Any) -> Measured:
        """Answer one prompt."""
        tokens, chosen = self.torch.tensor([prompt]), {"max_new_tokens": MAX_TOKENS, "do_sample": False, **options}
        started = time.perf_counter()
        with self.torch.inference_mode():
            answer = self.model.generate(tokens, **chosen)
        seconds = time.perf_counter() - started
        return Measured(seconds, [answer[0, len(prompt) :].tolist()])
