"""Checks whole engines with the learner's phases, on seeded workloads.

`python -m mini_vllm_labs.grading.engine_checks` runs one check in a worker that `grader.py` starts.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mini_vllm import LLM, EngineConfig, Lineup, SamplingParams, parse_lineup
from mini_vllm.assembly.elective_parts import policy_classes_for
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.invariants import InvariantError
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.engine.errors import StalledError
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.results import PASSED, EngineCheck
from mini_vllm_labs.grading.starter_file import complaint_about_file, complaint_about_import, import_starter
from mini_vllm_labs.grading.worker import LIMITS, End, Importing, send_event
from mini_vllm_labs.runs.oracle.divergence import Divergence, first_divergence, settings_for
from mini_vllm_labs.runs.sandbox.channel import Channel, take_stdio
from mini_vllm_labs.runs.sandbox.explain import explain, is_not_written, unwritten_phase
from mini_vllm_labs.runs.sandbox.frames import is_learners
from mini_vllm_labs.runs.sandbox.limits import limit_resources
from mini_vllm_labs.runs.sandbox.watch import Watchdog
from mini_vllm_labs.runs.workloads.electives import with_electives
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import Run, make_workload
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

SEEDS = range(6)  # with fewer seeds, some setting in `settings_for` would be skipped
NUM_REQUESTS = 10
MAX_STEPS = 1000
REAL_PROMPTS = ("Tell me a story about Mina and a kite.", "What is the capital of Norway?", "Count from 3 to 9.")
REAL_TOKENS = 16
# Prompt lookup always drafts as many tokens as allowed: the fake model rarely repeats itself, and a pause would hide
# errors.
DRAFTS = SpeculativeConfig(prompt_lookup_min=1, adaptive=False)


def check_stack(mine: Lineup, reference: Lineup | None) -> EngineCheck:
    """Run the fake model: outputs must be correct, invariants must hold, and plans must equal the reference's."""
    for seed in SEEDS:
        arrivals, config = make_workload(seed, NUM_REQUESTS), possible_settings(seed, mine)
        for make in policies_of(mine):
            if message := output_problem(arrivals, config, mine, make):
                return EngineCheck("failed", f"Workload {seed}: {message}")
        if reference is not None and (divergence := first_divergence(arrivals, config, mine, reference)) is not None:
            return divergence_failure(seed, divergence)
    return PASSED


def check_oracle(mine: Lineup, reference: Lineup) -> EngineCheck:
    """Compare an engine that has one of the learner's phases with the reference, decision by decision."""
    for seed in SEEDS:
        config = with_electives(settings_for(seed), mine, DRAFTS)
        divergence = first_divergence(make_workload(seed, NUM_REQUESTS), config, mine, reference)
        if divergence is not None:
            return divergence_failure(seed, divergence)
    return PASSED


def check_model(mine: Lineup) -> EngineCheck:
    """Run the embedded model: its output must equal that of transformers' `generate`, token for token."""
    import torch

    from mini_vllm.runner.loading import load_model

    loaded, tokenizer = load_model()
    prompts = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in REAL_PROMPTS]
    config = EngineConfig(
        max_num_batched_tokens=32,
        long_prefill_token_threshold=7,  # splits even short prompts into chunks
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
            return EngineCheck(
                "failed",
                f"The real model's output differs from transformers' generate for {text!r}:\n "
                f" expected  {expected!r}\n  yours     {got!r}",
            )
    return PASSED


def possible_settings(seed: int, lineup: Lineup) -> EngineConfig:
    """Return the settings for a seed, changed so that absent phases can serve them."""
    config = settings_for(seed)
    if lineup.preemption == "absent":
        config = replace(config, policy="fcfs")  # the priority queue is part of phase 3
    return make_possible(with_electives(config, lineup, DRAFTS), lineup)[0]


def policies_of(lineup: Lineup) -> Sequence[Callable[[], SchedulingPolicy | None]]:
    """Return a factory for each scheduling policy used to check a lineup: the config's policy, or both of phase
    13's."""
    classes = policy_classes_for(lineup.policies)
    return [lambda: None] if classes is None else [classes.virtual_token_counter, classes.least_slack_first]


def output_problem(
    arrivals: list[TimedRequest],
    config: EngineConfig,
    lineup: Lineup,
    make_policy: Callable[[], SchedulingPolicy | None] = lambda: None,
) -> str:
    """Run a workload and describe the first problem; return an empty string if there is none."""
    outputs: dict[str, list[int]] = {arrival.request_id: [] for arrival in arrivals}
    number = 0
    try:
        run = Run(arrivals, config, lineup, make_policy())
        while not run.finished:
            if number == MAX_STEPS:
                return f"some requests are still unfinished after {MAX_STEPS} steps."
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
                f"{arrival.request_id} has the wrong output.\n "
                f" expected  {text_of(truth)}\n  yours     {text_of(outputs[arrival.request_id])}"
            )
    return ""


def divergence_failure(seed: int, divergence: Divergence) -> EngineCheck:
    """Turn the first difference between two engines into a failed check that shows their last steps."""
    if divergence.error is not None:
        message = explain(divergence.error, {})
        return EngineCheck(
            "failed",
            f"Workload {seed}: only your engine raises an error, in step {divergence.step}. {message}",
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
    return EngineCheck("failed", message, steps=steps)


def text_of(token_ids: list[int]) -> str:
    """Return the fake model's output as a quoted string."""
    return repr("".join(map(chr, token_ids)))


def main() -> None:
    """Receive an order, run its check and send the result."""
    channel = take_stdio()
    order = channel.receive()
    limit_resources(LIMITS)
    watch = Watchdog(Path(order["trace"]))
    watch.start(order["seconds"])
    try:
        found = not_loaded(channel, parse_lineup(order["mine"])) or do(order)
    except BaseException as error:  # for example, `sys.exit` in a starter
        number = unwritten_phase(error)
        culprits = [number] if number else []
        found = EngineCheck("not yet" if number else "failed", explain(error, {}), culprits)
    send_event(channel, found)
    watch.stop()
    send_event(channel, End())


def do(order: dict[str, Any]) -> EngineCheck:
    mine = parse_lineup(order["mine"])
    reference = parse_lineup(order["reference"]) if order["reference"] else None
    match order["kind"]:
        case "stack":
            return check_stack(mine, reference)
        case "oracle":
            assert reference is not None
            return check_oracle(mine, reference)
        case "model":
            return check_model(mine)
    raise ValueError(f"unknown check {order['kind']!r}")


def not_loaded(channel: Channel, mine: Lineup) -> EngineCheck | None:
    """Import a lineup's starters; return a failed check for the first starter that cannot be loaded, or None.

    An event is sent before each import, so that the grader knows which file ended the process.
    """
    for phase in load_whole_plan():
        if mine[phase.number] == "starter":
            send_event(channel, Importing(phase.number))
            if complaint := complaint_about_starter(phase):
                return EngineCheck("not graded", complaint, [phase.number])
    send_event(channel, Importing())
    return None


def complaint_about_starter(phase: PlannedPhase) -> str:
    """Import the learner's file; return why it cannot be used, or an empty string."""
    path = CHECKOUT / phase.starter
    if complaint := complaint_about_file(path):
        return complaint
    try:
        file = import_starter(phase.module).__file__
    except BaseException as error:
        return complaint_about_import(error, path)
    return "" if file and is_learners(file) else f"Phase {phase.number} was loaded from {file}."


if __name__ == "__main__":
    main()
