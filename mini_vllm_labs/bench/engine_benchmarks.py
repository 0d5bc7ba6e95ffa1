"""Defines the benchmarks of the engine's features: the sides, workloads and figures of each."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from random import Random

from mini_vllm.config import EngineConfig
from mini_vllm.sampling_params import StructuredOutputsParams
from mini_vllm_labs.bench.backend import ServedRound
from mini_vllm_labs.bench.case import Case, Figures, Quantity
from mini_vllm_labs.bench.engine_cases import EMBEDDED, LARGER, WIDE, EngineBenchmark, EngineSetting, EngineSide, Work
from mini_vllm_labs.bench.plan import Sizes, even_requests, questions_about_one_document
from mini_vllm_labs.bench.served_latencies import figures_of
from mini_vllm_labs.bench.speculative import (
    ASSISTED_PEER,
    COPYING,
    DRAFTS,
    LOOKUP_PEER,
    PLAIN_PEER,
    STORIES,
    chats,
    transformers_peers,
)
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

VOCAB = range(4, 1500)  # ids 0 to 3 are special tokens
WITH, WITHOUT = "with it", "without"
NO_DRAFTS, FIXED, ADAPTIVE, DRAFT_MODEL = "no drafts", "4 drafts", "adaptive", "draft model"
IN_TURN, OVERLAPPED, BETWEEN = "in turn", "overlapped", "outside the passes"
GREEDY, MASKS = "greedy", "masks"
AT_A_TEMPERATURE = {
    "temperature 0.8": {"temperature": 0.8},
    "temperature 0.8 with two cuts": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
}
NUM_TOKENS = {EMBEDDED: 96, LARGER: 16, WIDE: 8}  # a step of the larger models takes much longer
QUICK = {"batch_sizes": (1, 4), "models": (EMBEDDED,)}
# Greedy decoding, with every row masked. The text must end in "#", which the model never writes, so texts do not end
# early.
REGEX = r"[A-Za-z ,.!?\n]*#"
JSON_ARRAY = {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 100}
GRAMMARS = {
    "under a regex": StructuredOutputsParams(regex=REGEX),
    "llguidance, same regex": StructuredOutputsParams(grammar=f"start: /{REGEX}/"),
    "llguidance, JSON schema": StructuredOutputsParams(json=JSON_ARRAY),
}


def questions(work: Work) -> list[TimedRequest]:
    """Return questions that share a prefix of 1,024 tokens; each round has a different prefix."""
    sizes = Sizes(shared_document=max(1, round(1024 * work.scale)))
    return questions_about_one_document(work.size, VOCAB.stop, work.round_number, sizes)


def documents_among_chats(work: Work) -> list[TimedRequest]:
    """Return chats with long outputs, and an equal number of 1,536-token documents that arrive one by one during the
    chats."""
    rng, half = Random(f"chunked {work.round_number}"), work.size // 2
    length, output = round(1536 * work.scale), max(8, round(256 * work.scale))
    chats = [TimedRequest(0.0, f"chat {n}", rng.choices(VOCAB, k=16), output) for n in range(half)]
    documents = [TimedRequest(0.1 * n, f"document {n}", rng.choices(VOCAB, k=length), 4) for n in range(1, half + 1)]
    return chats + documents


def unknown_lengths(work: Work) -> list[TimedRequest]:
    """Return requests with a limit of 512 output tokens, most of which finish much earlier."""
    rng, limit = Random("preemption"), max(16, round(512 * work.scale))
    # cubed, so that most of them end early
    lengths = [min(limit, round(limit * rng.random() ** 3) + 4) for _ in range(work.size)]
    prompts = Random(f"preemption {work.round_number}")
    return [
        TimedRequest(0.0, str(n), prompts.choices(VOCAB, k=32), limit, output_len=length)
        for n, length in enumerate(lengths)
    ]


def batch(work: Work) -> list[TimedRequest]:
    """Return requests of 32 tokens that all arrive at once."""
    sizes = Sizes(even_prompt=32, even_output=NUM_TOKENS[work.model])
    return even_requests(work.size, VOCAB.stop, f"{work.size} {work.round_number}", sizes)


def latencies(side: EngineSide, requests: Sequence[TimedRequest], served: ServedRound) -> Figures:
    """Return the times to the first token and between tokens, and the step sizes that explain these times."""
    return figures_of(requests, served) | {
        "tokens computed": Quantity(sum(step["num_tokens"] for step in served.steps)),
        "largest step": Quantity(max(step["num_tokens"] for step in served.steps)),
        "most at once": Quantity(max(step["num_requests"] for step in served.steps)),
    }


def drafts(side: EngineSide, requests: Sequence[TimedRequest], served: ServedRound) -> Figures:
    """Return the number of steps, the tokens per step, and the acceptance rate of draft 1, 2, ..."""
    per_step = Quantity(served.num_output_tokens / len(served.steps))
    figures = {"steps": Quantity(len(served.steps)), "tokens per step": per_step}
    statistics = side.engine.draft_statistics
    if statistics is not None and statistics.num_drafts:
        for position, accepted in enumerate(statistics.num_accepted_tokens_per_pos, start=1):
            figures[f"draft {position} accepted"] = Quantity(accepted / statistics.num_drafts, "share")
    return figures


def own_gains(case: Case) -> list[str]:
    """Describe how much transformers gains from its own drafts, if that was measured."""
    if PLAIN_PEER not in case.sides:
        return []
    lookup, assisted = (case.ratio(name, PLAIN_PEER) for name in (LOOKUP_PEER, ASSISTED_PEER))
    return [f"transformers gains x{lookup:.2f} by its own prompt lookup, x{assisted:.2f} by the same draft model"]


def gaps(side: EngineSide, requests: Sequence[TimedRequest], served: ServedRound) -> Figures:
    """Return the number of forward passes, the time between passes, and the share of time outside them."""
    span = side.clock.ended - side.clock.began
    between = span - side.clock.seconds
    gap = Quantity(between / max(1, side.clock.num_passes - 1), "s")
    share = Quantity(between / span, "share")
    return {"passes": Quantity(side.clock.num_passes), "between two passes": gap, BETWEEN: share}


def masks(side: EngineSide, requests: Sequence[TimedRequest], served: ServedRound) -> Figures:
    """Return the share of time spent on grammar masks, if any were used."""
    return {MASKS: Quantity(side.mask_seconds / served.seconds, "share")} if side.mask_seconds else {}


def has_grammar(name: str, side: EngineSide, model: str) -> bool:
    """Return whether a side can sample this way: a grammar needs phase 9, an end token and sometimes llguidance."""
    if name not in GRAMMARS:
        return True
    engine = side.engine
    is_there = "llguidance" not in name or find_spec("llguidance") is not None
    return engine.grammars is not None and bool(engine.tokenizer.eos_token_ids) and model != WIDE and is_there


BENCHMARKS = {
    "prefix": EngineBenchmark(
        {WITH: EngineSetting(), WITHOUT: EngineSetting({"enable_prefix_caching": False})},
        WITHOUT,
        {"32 questions that share a document of 1,024 tokens": questions},
        latencies,
        {"batch_sizes": (4,), "scale": 0.1},
        batch_sizes=(32,),
        config=EngineConfig(),
    ),
    "chunked": EngineBenchmark(
        {
            WITH: EngineSetting({"max_num_batched_tokens": 128}),
            WITHOUT: EngineSetting({"max_num_batched_tokens": 2048, "enable_chunked_prefill": False}),
        },
        WITHOUT,
        {"8 chats that decode while 8 documents of 1,536 tokens arrive": documents_among_chats},
        latencies,
        {"scale": 0.1},
        batch_sizes=(16,),
    ),
    "preemption": EngineBenchmark(
        {
            WITH: EngineSetting(absent=("prefix_cache", "chunking")),
            WITHOUT: EngineSetting(absent=("prefix_cache", "chunking", "kv_cache", "preemption")),
        },
        WITHOUT,
        {"32 requests of up to 512 tokens, most of which end earlier, with a fifth of the memory": unknown_lengths},
        latencies,
        {"batch_sizes": (6,), "scale": 0.1},
        batch_sizes=(32,),
        room=0.2,
    ),
    "speculative": EngineBenchmark(
        {
            NO_DRAFTS: EngineSetting(),
            FIXED: EngineSetting({"speculative_config": replace(DRAFTS, adaptive=False)}),
            ADAPTIVE: EngineSetting({"speculative_config": replace(DRAFTS, adaptive=True, disable_by_batch_size=8)}),
            DRAFT_MODEL: EngineSetting(
                {"speculative_config": replace(DRAFTS, method="draft_model", adaptive=True, disable_by_batch_size=8)}
            ),
        },
        NO_DRAFTS,
        {f"each chat {workload}": partial(chats, workload) for workload in (COPYING, STORIES)},
        drafts,
        QUICK,
        params={"ignore_eos": False},
        peers=transformers_peers,
        notes=own_gains,
    ),
    "async": EngineBenchmark(
        {IN_TURN: EngineSetting(), OVERLAPPED: EngineSetting({"async_scheduling": True})},
        IN_TURN,
        {"32 input tokens": batch},
        gaps,
        QUICK,
        models=(EMBEDDED, LARGER),
    ),
    "sampling": EngineBenchmark(
        {
            GREEDY: EngineSetting(),
            **{name: EngineSetting(params={"seed": 1, **params}) for name, params in AT_A_TEMPERATURE.items()},
            **{
                name: EngineSetting(params={"structured_outputs": grammar, "ignore_eos": False})
                for name, grammar in GRAMMARS.items()
            },
        },
        GREEDY,
        {"32 input tokens": batch},
        masks,
        QUICK,
        models=(EMBEDDED, LARGER, WIDE),
        same_tokens=False,
        applies=has_grammar,
    ),
}
