"""What sampling costs: the same requests greedily, at a temperature, with a cut, and under a regex."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, cast

from bench.engine_rounds import CONFIG, answer_all, build_engines
from bench.models import LARGE_VOCABULARY, RANDOM_MODEL, save_random_model
from course.terminal.progress import ProgressReport
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.sampling_params import SamplingParams, StructuredOutputsParams

EMBEDDED, LARGER, WIDE = "embedded model", "150 M model, random weights", "Qwen3-0.6B's shape, 2 layers, random weights"
END_OF_TEXT = 2  # in the course's tokenizer; a text under a grammar needs one
SIZES = {LARGER: RANDOM_MODEL | {"eos_token_id": END_OF_TEXT}, WIDE: LARGE_VOCABULARY}
NUM_TOKENS = {EMBEDDED: 96, LARGER: 16, WIDE: 8}  # a step of the larger ones takes far longer
PROMPT_LENGTH = 32
GREEDY = "greedy"
# In the last one each row keeps at most 50 tokens, and of those the fewest that reach 0.9.
WAYS: dict[str, dict[str, Any]] = {
    GREEDY: {},
    "temperature 0.8": {"temperature": 0.8, "seed": 1},
    "0.8 with two cuts": {"temperature": 0.8, "top_k": 50, "top_p": 0.9, "seed": 1},
}
# Greedy, every row masked. A text that must end in a sign that the model does not write does not end too early.
SHAPE = StructuredOutputsParams(regex=r"[A-Za-z ,.!?\n]*#")
UNDER_A_REGEX = {"under a regex": {"structured_outputs": SHAPE, "ignore_eos": False}}
GRAMMARS = {
    "phase 9, a regex": SHAPE,
    "llguidance, the same as a grammar": StructuredOutputsParams(grammar=f"start: /{SHAPE.regex}/"),
    "llguidance, a JSON schema": StructuredOutputsParams(
        json={"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 100}
    ),
}
MASKED_BATCH_SIZES = (16, 64)


@dataclass(frozen=True)
class SamplingCase:
    """A model at a batch size: tokens per second by way, one figure per round.

    `mask_shares` are the medians of the time that masks take, as a share of all, by grammar.
    """

    model: str
    batch_size: int
    vocab_size: int
    rates: dict[str, list[float]]
    mask_shares: dict[str, float]

    def share_of_greedy(self, way: str) -> float:
        return median(self.rates[way]) / median(self.rates[GREEDY])


def measure_sampling(
    lineup: Lineup,
    num_threads: int,
    batch_sizes: Sequence[int],
    models: Sequence[str],
    num_rounds: int,
    report: ProgressReport,
) -> Iterator[SamplingCase]:
    """Measure each model at each batch size; the ways take turns, after a round of each that does not count."""
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            report(f"{model}: loading")
            path = str(save_random_model(Path(folder) / "model", SIZES[model])) if model in SIZES else None
            engine = build_engines({model: CONFIG}, lineup, num_threads, path)[model]
            has_grammars = engine.grammars is not None and engine.tokenizer.eos_token_ids
            # Random weights could end a text under the regex before its time.
            ways = WAYS | UNDER_A_REGEX if has_grammars and model == EMBEDDED else WAYS
            for batch_size in batch_sizes:
                rates: dict[str, list[float]] = {way: [] for way in ways}
                for number in range(num_rounds + 1):
                    report(f"{model}, batch {batch_size}, round {number} of {num_rounds}")
                    for way, settings in ways.items():
                        rates[way].append(tokens_per_second(engine, batch_size, NUM_TOKENS[model], settings))
                counted = {way: figures[1:] for way, figures in rates.items()}
                shares = dict[str, float]()
                if has_grammars and batch_size in MASKED_BATCH_SIZES:
                    for name, grammar in GRAMMARS.items():
                        if "llguidance" in name and find_spec("llguidance") is None:
                            continue
                        report(f"masks, {name}, batch {batch_size}")
                        shares[name] = mask_share(engine, batch_size, NUM_TOKENS[model], num_rounds, grammar)
                yield SamplingCase(model, batch_size, engine.runner.vocab_size, counted, shares)


def mask_share(
    engine: LLMEngine, batch_size: int, num_tokens: int, num_rounds: int, grammar: StructuredOutputsParams
) -> float:
    """Return which share of the time goes to masks, a grammar in every row: the median of the rounds after a first."""
    masks = cast(PagedModelRunner, engine.runner).masks
    assert masks is not None
    seconds, shares = [0.0], []

    def timed(*args: Any) -> Any:
        started = time.perf_counter()
        masked = type(masks).apply(masks, *args)
        seconds.append(time.perf_counter() - started)
        return masked

    masks.apply = timed  # type: ignore[method-assign, assignment]
    settings = {"structured_outputs": grammar, "ignore_eos": False}
    for _ in range(num_rounds + 1):
        seconds.clear()
        rate = tokens_per_second(engine, batch_size, num_tokens, settings)
        shares.append(sum(seconds) * rate / (batch_size * num_tokens))
    del masks.apply
    return median(shares[1:])


def tokens_per_second(engine: LLMEngine, batch_size: int, num_tokens: int, settings: dict[str, Any]) -> float:
    """Generate `num_tokens` tokens for each of `batch_size` prompts, all at once."""
    rng, vocabulary = Random(batch_size), range(5, 1500)
    prompts = [[rng.choice(vocabulary) for _ in range(PROMPT_LENGTH)] for _ in range(batch_size)]
    params = SamplingParams(max_tokens=num_tokens, **({"ignore_eos": True} | settings))
    started = time.perf_counter()
    answer_all(engine, prompts, params)
    return batch_size * num_tokens / (time.perf_counter() - started)
