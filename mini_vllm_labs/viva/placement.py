"""The placement: twelve questions about runs of the reference, which determine the phase to start with.

`placement.json` contains the questions, because a student edition has no reference to run. `python -m
tests.viva.record_placement` runs the reference and writes the file.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random

from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.starter_status import lab_folder
from mini_vllm_labs.runs.workloads.small_workload import make_workload
from mini_vllm_labs.viva.files import Files
from mini_vllm_labs.viva.make_sheet import drawn
from mini_vllm_labs.viva.runs import Played, RunPlayer
from mini_vllm_labs.viva.sheet import VivaQuestion

FILE = Path(__file__).with_name("placement.json")
TOPICS = {"tokens and chunks": 1, "blocks": 2, "preemption": 3}  # each with the phase that teaches its rule
NUM_EACH = 4
LEAST_RIGHT = 3
NUM_SHEETS = 4
NUM_RUNS, REQUESTS = 8, 8
LINEUP = "solution:1-3,solution:5"  # if there were a prefix cache, questions about hits would be needed too


def recorded() -> list[list[VivaQuestion]]:
    """Return the recorded sheets, each with twelve questions."""
    sheets = json.loads(FILE.read_text(encoding="utf-8"))
    return [
        [VivaQuestion(**one | {name: tuple(one[name]) for name in ("options", "shown")}) for one in sheet]
        for sheet in sheets
    ]


def make_sheets() -> str:
    """Run the reference and return the sheets as JSON. Needs `solutions/`."""
    found: dict[str, dict[str, list[VivaQuestion]]] = {}
    for seed in range(NUM_RUNS):
        lengths = {one.request_id: len(one.prompt_token_ids) for one in make_workload(seed, REQUESTS)}
        with RunPlayer(seed, REQUESTS) as player:
            run = player.play(Files({}), lineup=LINEUP)
        for one in questions(run, lengths, Random(seed)):
            found.setdefault(topic_of(one), {}).setdefault(one.kind, []).append(one)
    sheets = []
    for seed in range(NUM_SHEETS):
        rng = Random(seed)
        sheets.append([asdict(one) for topic in TOPICS for one in drawn(list(found[topic].values()), rng, NUM_EACH)])
    return json.dumps(sheets).replace("}, {", "},\n{").replace("], [", "],\n[") + "\n"


def questions(run: Played, lengths: dict[str, int], rng: Random) -> Iterator[VivaQuestion]:
    """Yield the questions about a run with prompts of these lengths; the run determines every right answer."""
    known = dict(lengths)  # number of tokens so far, including generated ones
    size, budget = run.settings["block_size"], run.settings["max_num_batched_tokens"]
    limit, before = run.settings["long_prefill_token_threshold"], None
    for number, step in enumerate(run.steps):
        shown, shares = run.around(number), step["scheduled"]
        if len(shares) > 1 and shares[-1]["n"] < known[shares[-1]["id"]] - shares[-1]["computed"]:
            needs = ", ".join(f"{one['id']} needs {known[one['id']] - one['computed']}" for one in shares)
            text = (
                f"A step computes at most {budget} tokens, and at most {limit} of one request. In this order: {needs}."
            )
            right, name = shares[-1]["n"], shares[-1]["id"]
            yield question("tokens and chunks: share", f"{text} How many does {name} get?", right, shown)
        for one in shares:
            if one["n"] > 1:
                text = f"A block holds {size} tokens. {one['id']} has computed {one['computed']} tokens and gets"
                text = f"{text} {one['n']} more. How many new blocks does it need?"
                yield question("blocks: new", text, len(one["new_blocks"]), shown)
        if before is not None and len(shares) > 1 and not step["preempted"]:
            gets = ", ".join(f"{one['id']} has {one['computed']} tokens and gets {one['n']} more" for one in shares)
            text = f"A block holds {size} tokens, and {before['free_after_update']} blocks are free. {gets}."
            yield question("blocks: free", f"{text} How many blocks are free then?", step["free_after_schedule"], shown)
        if before is not None:
            yield from preemptions(run, number, before, lengths, known, rng)
        for name, tokens in step["sampled"].items():
            known[name] += len(tokens)
        before = step


def preemptions(
    run: Played, number: int, before: StepRecord, lengths: dict[str, int], known: dict[str, int], rng: Random
) -> Iterator[VivaQuestion]:
    """Yield the questions about the first request that a step preempts; `before` is the previous step."""
    step, shown = run.steps[number], run.around(number)
    running = [one[0] for one in before["running_after"]]
    victim = step["preempted"][0][0] if step["preempted"] else ""
    if victim not in running:
        return
    options = tuple(rng.sample(running, len(running)))
    text = f"First come, first served: {', '.join(running)} came in this order and run. One of them needs a block, and"
    text, place = f"{text} none is free. Which request is preempted first?", options.index(victim) + 1
    if len(running) > 2:
        yield VivaQuestion("preemption: victim", text, place, str(place), shown, options)
    for one in before["scheduled"]:
        if one["id"] == victim and len(one["blocks"]) > 1:
            tokens = f"{victim} has computed {one['computed'] + one['n']} tokens and is preempted"
            text = f"A block holds {run.settings['block_size']} tokens. {tokens}. How many blocks become free?"
            yield question("preemption: freed", text, len(one["blocks"]), shown)
    computed, generated = 0, known[victim] - lengths[victim]
    for later in run.steps[number + 1 :]:
        computed += sum(one["n"] for one in later["scheduled"] if one["id"] == victim)
        if later["sampled"].get(victim):
            text = f"{victim} has a prompt of {lengths[victim]} tokens, has generated {generated} and is preempted."
            text = f"{text} How many tokens does the engine compute for it until its next new one?"
            yield question("preemption: again", text, computed, shown)
        if later["sampled"].get(victim) or victim in (one[0] for one in later["preempted"]):
            break


def question(kind: str, text: str, right: int, shown: tuple[str, ...]) -> VivaQuestion:
    return VivaQuestion(kind, text, right, str(right), shown)


def topic_of(one: VivaQuestion) -> str:
    return one.kind.partition(":")[0]


def first_phase(asked: list[VivaQuestion], given: list[int | None]) -> int:
    """Return the phase of the first topic with fewer than three right answers, or the phase after the last topic."""
    right = [topic_of(one) for one, answer in zip(asked, given, strict=False) if answer == one.right]
    unknown = [phase for topic, phase in TOPICS.items() if right.count(topic) < LEAST_RIGHT]
    return unknown[0] if unknown else len(TOPICS) + 1


def advice(phase: int) -> list[str]:
    """Return the lines that tell the learner where to start, and whose code to use for the earlier phases."""
    lines = [f"Begin with phase {phase}, {PHASE_NAMES[phase - 1]}: labs/{lab_folder(phase)}/README.md"]
    if phase == 1:
        return lines
    earlier = "phase 1" if phase == 2 else f"phases 1 to {phase - 1}"
    if solutions_exist():
        lineup = f"solution:1-{phase - 1},starter:{phase}".replace("1-1", "1")
        lines.append(f"With the reference's {earlier}: LAB_IMPL={lineup} mini-vllm trace")
    else:
        lines.append(
            f"Its tests need no {earlier}; an engine does, and this edition has no reference: write them later."
        )
    return [*lines, f"Its points: mini-vllm grade --phase {phase}"]
