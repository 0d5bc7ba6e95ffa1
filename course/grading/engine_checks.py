"""Checks of whole engines with the learner's phases, on seeded workloads.

Each function returns None if the check passes. They run in a worker (`job.py`).
"""

from dataclasses import dataclass, replace
from typing import Any

from course.oracle.divergence import Divergence, first_divergence, settings_for
from course.sandbox.explain import explain, is_not_written
from course.workloads.fallbacks import make_possible
from course.workloads.small_workload import Run, make_workload
from course.workloads.timed_request import TimedRequest
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.invariants import InvariantError
from mini_vllm.engine.errors import StalledError
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from mini_vllm.sampling_params import SamplingParams

SEEDS = range(6)
NUM_REQUESTS = 10
MAX_STEPS = 1000
REAL_PROMPTS = ("Tell me a story about Mina and a kite.", "What is the capital of Norway?", "Count from 3 to 9.")
REAL_TOKENS = 16


@dataclass(frozen=True)
class Failure:
    """Why a check failed; `steps` are the last steps of both sides if two engines were compared."""

    message: str
    steps: dict[str, Any] | None = None


def stack_failure(mine: Lineup, reference: Lineup | None) -> Failure | None:
    """Run the fake model: outputs must be correct, invariants hold, and plans equal the reference's."""
    for seed in SEEDS:
        arrivals, config = make_workload(seed, NUM_REQUESTS), possible_settings(seed, mine)
        message = output_problem(arrivals, config, mine)
        if message:
            return Failure(f"Workload {seed}: {message}")
        if reference is not None and (divergence := first_divergence(arrivals, config, mine, reference)) is not None:
            return divergence_failure(seed, divergence)
    return None


def oracle_failure(mine: Lineup, reference: Lineup) -> Failure | None:
    """Compare the decisions of an engine that has one phase of the learner with the reference's, step by step."""
    for seed in SEEDS:
        config = with_electives(settings_for(seed), mine)
        divergence = first_divergence(make_workload(seed, NUM_REQUESTS), config, mine, reference)
        if divergence is not None:
            return divergence_failure(seed, divergence)
    return None


def model_failure(mine: Lineup) -> Failure | None:
    """Run the embedded model: its output must equal that of transformers' `generate`, token for token."""
    import torch

    from mini_vllm.llm import LLM
    from mini_vllm.runner.loading import load_model

    loaded, tokenizer = load_model()
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in REAL_PROMPTS]
    config = EngineConfig(
        max_num_batched_tokens=32,
        long_prefill_token_threshold=7,
        max_model_len=96,
        block_size=4,
        num_gpu_blocks=24,
        check_invariants=True,
    )
    outputs = LLM(None, config, mine).generate(prompts, SamplingParams(max_tokens=REAL_TOKENS))
    for text, prompt, output in zip(REAL_PROMPTS, prompts, outputs, strict=True):
        with torch.inference_mode():
            truth = loaded.model.generate(
                input_ids=torch.tensor([prompt], device=loaded.device),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.int64, device=loaded.device),
                max_new_tokens=REAL_TOKENS,
                do_sample=False,
                pad_token_id=0,
            )[0, len(prompt) :].tolist()
        yours = output.outputs[0].token_ids
        if yours != truth:
            expected, got = (tokenizer.decode(tokens) for tokens in (truth, yours))
            return Failure(
                f"The real model's output differs from transformers' generate for {text!r}:\n"
                f"  expected  {expected!r}\n  yours     {got!r}"
            )
    return None


def possible_settings(seed: int, lineup: Lineup) -> EngineConfig:
    """Return the settings of a seed, changed so that absent phases can serve them."""
    config = settings_for(seed)
    if lineup.preemption == "absent":
        config = replace(config, policy="fcfs")  # the priority queue is part of phase 3
    return make_possible(with_electives(config, lineup), lineup)[0]


def with_electives(config: EngineConfig, lineup: Lineup) -> EngineConfig:
    """Return settings that use the electives of a lineup: drafts from prompt lookup, asynchronous scheduling."""
    drafts = None if lineup.speculation == "absent" else SpeculativeConfig(prompt_lookup_min=1, adaptive=False)
    return replace(config, speculative_config=drafts, async_scheduling=lineup.async_scheduling != "absent")


def output_problem(arrivals: list[TimedRequest], config: EngineConfig, lineup: Lineup) -> str:
    """Run a workload and describe what is wrong with it; return an empty text if nothing is."""
    outputs: dict[str, list[int]] = {arrival.request_id: [] for arrival in arrivals}
    number = 0
    try:
        run = Run(arrivals, config, lineup)
        while not run.finished:
            if number == MAX_STEPS:
                return f"after {MAX_STEPS} steps requests are still not finished."
            for request_id, token_ids in run.step()["output"]:
                outputs[request_id] += token_ids
            number += 1
    except InvariantError as error:
        return f"in step {number} the engine breaks an invariant: {error}"
    except StalledError as error:
        return f"in step {number} the engine stalls: {error}"
    except Exception as error:
        if is_not_written(error):
            raise
        return f"in step {number} the engine raises an error. {explain(error, {})}"
    for arrival in arrivals:
        truth = fake_continuation(arrival.prompt_token_ids, arrival.max_tokens, LETTERS)
        if outputs[arrival.request_id] != truth:
            return (
                f"{arrival.request_id} has the wrong output.\n"
                f"  expected  {text_of(truth)}\n  yours     {text_of(outputs[arrival.request_id])}"
            )
    return ""


def divergence_failure(seed: int, divergence: Divergence) -> Failure:
    """Return the first difference between two engines, described and with its last steps."""
    if divergence.error is not None:
        message = explain(divergence.error, {})
        return Failure(
            f"Workload {seed}: in step {divergence.step} yours raises an error and the reference continues. {message}"
        )
    message = (
        f"Workload {seed}: the first difference from the reference is in step {divergence.step}, {divergence.field!r}."
    )
    steps = {
        "step": divergence.step,
        "field": divergence.field,
        "reference": divergence.reference[-2:],
        "mine": divergence.mine[-2:],
    }
    return Failure(message, steps)


def text_of(token_ids: list[int]) -> str:
    """Return the fake model's output in quotes."""
    return repr("".join(map(chr, token_ids)))
