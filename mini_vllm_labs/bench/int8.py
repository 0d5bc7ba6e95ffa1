"""Compares int8 weights with float32 for decoding speed, memory use and quality, and measures the speed of int8
peers."""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from math import exp
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from mini_vllm.llm import LLM
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import dummy_batch
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.bench.backend import BackendSettings, Load
from mini_vllm_labs.bench.case import Case, Measured, PeerError, Quantity, in_turns
from mini_vllm_labs.bench.forward_clock import paged_model
from mini_vllm_labs.bench.models import model_directory, model_size
from mini_vllm_labs.bench.peer_process import OPENVINO, XLLAMACPP, PeerProcess, why_missing
from mini_vllm_labs.bench.plan import OURS, Sizes, even_requests, room_needed
from mini_vllm_labs.bench.speculative import NAMES, THINGS
from mini_vllm_labs.pictures.terminal.progress import ProgressReport

PLAIN, HALF, INT8 = "float32", "bfloat16", "int8"
PEERS = {XLLAMACPP: "llama.cpp Q8_0", OPENVINO: "OpenVINO int8"}
SIZES = Sizes(even_prompt=8, even_output=32)
TEXT_TOKENS, NUM_COMPARED = 256, 5_000


@dataclass(frozen=True, slots=True)
class Int8Plan:
    """The model, the batch sizes, the peers, the number of rounds, the number of compared tokens, and the lineup."""

    model: str
    batch_sizes: Sequence[int]
    peers: Sequence[str]
    num_rounds: int
    num_compared: int
    lineup: str


def int8_cases(plan: Int8Plan, folder: Path, facts: dict[str, Any], report: ProgressReport) -> Iterator[Case]:
    """Yield a case for each batch size, on one thread. `facts` receives each side's memory use, and says which peers
    are missing."""
    report(f"{plan.model}: loading")
    directory = model_directory(plan.model, folder)
    vocabulary = model_size(directory).vocab_size
    largest = even_requests(max(plan.batch_sizes), vocabulary, "", SIZES)
    settings = BackendSettings(str(directory), kv_cache_tokens=2 * room_needed(largest), lineup=plan.lineup)
    rounded = replace(settings, quantization="int8")
    sides = {PLAIN: (OURS, settings), HALF: (OURS, replace(settings, dtype=HALF)), INT8: (OURS, rounded)}
    facts["missing"] = missing = {}
    with ExitStack() as stack:
        running: dict[str, PeerProcess] = {}
        for name, (backend, chosen) in (sides | {PEERS[peer]: (peer, rounded) for peer in plan.peers}).items():
            report(f"{name}: loading")
            try:
                if reason := why_missing(backend):
                    raise PeerError(reason)
                running[name] = stack.enter_context(closing(PeerProcess(backend, chosen)))
            except PeerError as error:
                if backend == OURS:
                    raise
                missing[name] = str(error)
        for size in plan.batch_sizes:
            runs = {name: partial(decode, side, size, vocabulary) for name, side in running.items()}
            title = f"{plan.model}, batch {size}, one thread, per second of CPU"
            rounds = in_turns(runs, plan.num_rounds, num_warm_ups=1, report=report, title=title)
            yield Case.of(title, "tokens/s", PLAIN, rounds)
        facts["weight_bytes"] = {name: running[name].facts["weight_bytes"] for name in sides}
        facts["resident_bytes"] = {name: side.resident_bytes() for name, side in running.items()}


def decode(side: PeerProcess, size: int, vocabulary: int, number: int) -> Measured:
    """Serve a batch of new prompts; return tokens per CPU second, the figure that other programs affect least."""
    served = side.serve(even_requests(size, vocabulary, str(random.random()), SIZES), load=Load(batch_size=size))
    figures = {"by the clock": Quantity(served.tokens_per_second, "tokens/s")}
    return Measured(served.num_output_tokens / served.cpu_seconds, figures)


@dataclass(slots=True)
class Quality:
    """How two models continue the same texts: tokens compared, identical choices, and the nats each model needs for the
    texts."""

    num_tokens: int = 0
    num_equal: int = 0
    plain_nats: float = 0.0
    int8_nats: float = 0.0

    @property
    def equal(self) -> float:
        return self.num_equal / self.num_tokens

    @property
    def perplexities(self) -> tuple[float, float]:
        return exp(self.plain_nats / self.num_tokens), exp(self.int8_nats / self.num_tokens)


def quality(num_tokens: int, lineup: Lineup) -> Quality:
    """Have the embedded model write stories at temperature 1, then compare what both models would choose after each
    token."""
    plain, rounded = (
        LLM(config=EngineConfig(num_gpu_blocks=2 + TEXT_TOKENS // 16, seed=1, quantization=kind), lineup=lineup)
        for kind in (None, "int8")
    )
    rng, found, params = random.Random(1), Quality(), SamplingParams(temperature=1.0, max_tokens=TEXT_TOKENS // 2)
    while found.num_tokens < num_tokens:
        question = f"Tell me a story about {rng.choice(NAMES)} and a {rng.choice(THINGS)}."
        output = plain.chat([{"role": "user", "content": question}], params)[0]
        prompt, answer = list(output.prompt_token_ids), output.outputs[0].token_ids
        rows, tokens = slice(len(prompt) - 1, -1), torch.tensor(answer)
        own, other = (logits_of(paged_model(llm.engine), prompt + answer)[rows] for llm in (plain, rounded))
        found.num_tokens += len(answer)
        found.num_equal += int((own.argmax(-1) == other.argmax(-1)).sum())
        found.plain_nats += float(torch.nn.functional.cross_entropy(own, tokens, reduction="sum"))
        found.int8_nats += float(torch.nn.functional.cross_entropy(other, tokens, reduction="sum"))
    return found


def logits_of(model: PagedModel, token_ids: list[int]) -> Tensor:
    """Run a text through the model in one step, and return the logits after each token [tokens, vocab]."""
    count, size = len(token_ids), model.block_size
    num_blocks = -(-count // size)
    batch = replace(
        dummy_batch([count], num_blocks, size, model.device),
        input_ids=torch.tensor(token_ids),
        block_tables=torch.arange(1, 1 + num_blocks)[None],
        slot_mapping=torch.arange(size, size + count),
        logits_indices=torch.arange(count),
    )
    return model.forward(batch)
