"""What drafts gain and cost: the same chats without drafts, with a fixed number of them and with an adaptive one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

from bench.engine_rounds import CONFIG, answer_all, build_engines, fastest_rounds
from course.terminal.progress import ProgressReport
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import SpeculativeConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams

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
class DraftRound:
    """A round of one setting or peer: its seconds, its tokens, and what became of the drafts."""

    seconds: float
    token_ids: list[list[int]]
    num_steps: int = 0
    num_drafts: int = 0
    accepted_per_pos: list[int] = field(default_factory=list)
    all_seconds: list[float] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.token_ids))

    @property
    def tokens_per_second(self) -> float:
        return self.num_tokens / self.seconds


@dataclass(frozen=True)
class SpeculativeCase:
    """A workload at a batch size, with the fastest round of each setting and peer."""

    workload: str
    batch_size: int
    measured: dict[str, DraftRound]
    num_threads: int

    @property
    def same_tokens(self) -> bool:
        """Whether the tokens are the same in every setting."""
        first, *others = (one.token_ids for one in self.measured.values())
        return all(tokens == first for tokens in others)

    def speedup(self, name: str, base: str = WITHOUT) -> float:
        return self.measured[name].tokens_per_second / self.measured[base].tokens_per_second

    def record(self) -> dict[str, Any]:
        """Return the figures as JSON, without the tokens."""
        measured: dict[str, Any] = {}
        for name, one in self.measured.items():
            measured[name] = {"tokens_per_second": one.tokens_per_second, "num_tokens": one.num_tokens, **asdict(one)}
            del measured[name]["seconds"], measured[name]["token_ids"]
        case = {name: getattr(self, name) for name in ("workload", "batch_size", "num_threads", "same_tokens")}
        return {**case, "measured": measured}


def questions(workload: str, count: int) -> list[str]:
    """Return the questions of the chats: the answer is a list copied from the question, or a new story."""
    rng = Random(workload)
    if workload == COPYING:
        return [f"Repeat these words:\n{', '.join(rng.sample(THINGS, 8))}." for _ in range(count)]
    return [f"Tell me a story about {rng.choice(NAMES)} and a {rng.choice(THINGS)}." for _ in range(count)]


def measure_speculative(
    lineup: Lineup, threads: int | None, batch_sizes: Sequence[int], num_rounds: int, report: ProgressReport
) -> Iterator[SpeculativeCase]:
    """Measure each workload at each batch size; settings and peers take turns, and the fastest round counts."""
    configs = {name: replace(CONFIG, speculative_config=speculative) for name, speculative in SETTINGS.items()}
    engines = build_engines(configs, lineup, threads)
    peer = Transformers()
    for workload, batch_size in product((COPYING, STORIES), batch_sizes):
        report(f"{workload}, batch {batch_size}")
        template = engines[WITHOUT].tokenizer.apply_chat_template
        prompts = [template([{"role": "user", "content": text}]) for text in questions(workload, batch_size)]
        runs: dict[str, Callable[[], DraftRound]] = {
            name: partial(serve, engine, prompts) for name, engine in engines.items()
        }
        if batch_size == 1:  # transformers drafts for one request at a time
            runs |= {name: partial(peer.generate, prompts[0], **options) for name, options in peer.settings.items()}
        measured = fastest_rounds(runs, num_rounds, warm_up=True)
        yield SpeculativeCase(workload, batch_size, measured, peer.torch.get_num_threads())


def serve(engine: LLMEngine, prompts: Sequence[list[int]]) -> DraftRound:
    """Answer all prompts at once."""
    statistics = engine.draft_statistics
    # The statistics go on from one round to the next.
    before = (statistics.num_drafts, list(statistics.num_accepted_tokens_per_pos)) if statistics else (0, [])
    started = time.perf_counter()
    token_ids, num_steps = answer_all(engine, prompts, SamplingParams(max_tokens=MAX_TOKENS))
    measured = DraftRound(time.perf_counter() - started, token_ids, num_steps)
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

    def generate(self, prompt: list[int], **options: Any) -> DraftRound:
        tokens, chosen = self.torch.tensor([prompt]), {"max_new_tokens": MAX_TOKENS, "do_sample": False, **options}
        started = time.perf_counter()
        with self.torch.inference_mode():
            answer = self.model.generate(tokens, **chosen)
        seconds = time.perf_counter() - started
        return DraftRound(seconds, [answer[0, len(prompt) :].tolist()])
