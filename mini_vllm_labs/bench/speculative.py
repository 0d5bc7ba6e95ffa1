"""Defines the chats of `bench speculative`, and runs transformers' own drafting methods on them."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from mini_vllm.config import SpeculativeConfig
from mini_vllm.runner.loading import EMBEDDED_DRAFT_MODEL, EMBEDDED_MODEL
from mini_vllm_labs.bench.case import Measured
from mini_vllm_labs.bench.engine_cases import Work
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

COPYING, STORIES = "copies from its prompt", "tells a story"
PLAIN_PEER, LOOKUP_PEER, ASSISTED_PEER = "transformers", "transformers, lookup", "transformers, assisted"
DRAFTS = SpeculativeConfig("ngram", num_speculative_tokens=4)
NAMES = ("Anna", "Ben", "Leo", "Mia", "Tom", "Sara", "Max", "Lily")
THINGS = ("lamp", "cup", "ball", "book", "boat", "cake", "hat", "box", "tree", "bird", "cat", "dog", "fish", "bear")
MAX_TOKENS = 80


def questions(workload: str, count: int) -> list[str]:
    """Return the chats' questions, whose answers are either lists copied from the question or new stories."""
    rng = Random(workload)
    if workload == COPYING:
        return [f"Repeat these words:\n{', '.join(rng.sample(THINGS, 8))}." for _ in range(count)]
    return [f"Tell me a story about {rng.choice(NAMES)} and a {rng.choice(THINGS)}." for _ in range(count)]


def chats(workload: str, work: Work) -> list[TimedRequest]:
    """Return the questions as requests. Every round repeats them, because draft acceptance depends on the text."""
    texts = questions(workload, work.size)
    return [TimedRequest(0.0, str(number), work.chat(text), MAX_TOKENS) for number, text in enumerate(texts)]


def transformers_peers() -> Mapping[str, Callable[[list[TimedRequest]], Measured]]:
    """Return sides that run the embedded model with transformers' greedy `generate`: plain, prompt lookup, assisted."""
    model: Any = AutoModelForCausalLM.from_pretrained(EMBEDDED_MODEL, dtype=torch.float32)
    assistant: Any = AutoModelForCausalLM.from_pretrained(EMBEDDED_DRAFT_MODEL, dtype=torch.float32)
    assistant.generation_config.num_assistant_tokens = DRAFTS.num_speculative_tokens
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    settings: dict[str, dict[str, Any]] = {
        PLAIN_PEER: {},
        LOOKUP_PEER: {"prompt_lookup_num_tokens": DRAFTS.num_speculative_tokens},
        ASSISTED_PEER: {"assistant_model": assistant},
    }

    def generate(requests: list[TimedRequest], **options: Any) -> Measured:
        [request] = requests
        tokens, started = torch.tensor([list(request.prompt_token_ids)]), time.perf_counter()
        with torch.inference_mode():
            answer = model.generate(tokens, max_new_tokens=request.max_tokens, do_sample=False, **options)
        seconds, new = time.perf_counter() - started, answer[0, tokens.shape[1] :].tolist()
        return Measured(len(new) / seconds, answers=[new])

    return {name: partial(generate, **options) for name, options in settings.items()}
