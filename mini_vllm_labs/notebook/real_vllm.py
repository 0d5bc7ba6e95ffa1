"""Runs a notebook's prompts in a complete vLLM, once with the stock scheduler and once with the learner's."""

import json
import subprocess
from dataclasses import dataclass, replace

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm_labs.fresh.jobs import VllmRun, output_tokens
from mini_vllm_labs.fresh.process import FreshError
from mini_vllm_labs.inside_vllm import environment
from mini_vllm_labs.inside_vllm.rounds import PROMPTS, module_for, recording
from mini_vllm_labs.notebook import phase_code
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.missing import broken_starter, code_that_ran, mark_for
from mini_vllm_labs.notebook.notice import Notice, Remark, Words, show
from mini_vllm_labs.notebook.records import find_record, key_of
from mini_vllm_labs.pictures.time_machine.compare import first_difference

NOT_MADE = "Recorded with the reference. To run yours, type `mini-vllm inside-vllm` once: it makes .venv-vllm-cpu."
SECONDS = 600.0


@dataclass(frozen=True)
class Pair:
    """Facts about the same prompts under both schedulers."""

    stock: VllmRun
    yours: VllmRun

    @property
    def num_equal(self) -> int:
        """The number of identical texts."""
        return sum(text == self.yours.texts[name] for name, text in self.stock.texts.items())

    @property
    def first_difference(self) -> int:
        """The first step in which the schedules differ. Raises `LookupError` if they are the same."""
        found = first_difference(self.stock.recording.steps, self.yours.recording.steps)
        if found is None:
            raise LookupError("the two schedules are identical in every step")
        return found.step

    @property
    def same_schedule(self) -> bool:
        return first_difference(self.stock.recording.steps, self.yours.recording.steps) is None


def in_vllm(lab: Lab, num_blocks: int) -> tuple[VllmRun | Notice, VllmRun | Notice]:
    """Run the prompts with vLLM's stock scheduler and with the lab's; return both runs.

    If a task is unwritten or the environment is missing, both runs are recorded runs of the reference, marked as
    recorded.
    """
    lineup = replace(lab.lineup(), runner="absent")
    if broken := broken_starter(lineup):
        return broken, broken
    # Calls with phase 6 in the lineup have no memory limit.
    arguments = (num_blocks, replace(lineup, runner=lineup.scheduler))
    mark = mark_for(lineup) or ("" if environment.is_made() else NOT_MADE)
    if mark:
        runs = find_record(key_of(run_both, arguments))
    else:
        try:
            runs = phase_code.in_fresh_process(run_both, *arguments, seconds=SECONDS)
        except FreshError as error:
            notice = Notice("Your scheduler failed in vLLM", f"{error}\n\n{code_that_ran(lineup)}")
            return notice, notice
    if runs is None:
        remark = Remark("Not recorded", f"Only the runs of the unchanged notebook are. {mark}")
        return remark, remark
    stock, yours = (replace(run, recorded=mark) for run in runs)
    return stock, yours


def run_both(num_blocks: int, lineup: Lineup) -> list[VllmRun]:
    """Run the prompts with both schedulers in a single vLLM process.

    Raises `ValueError` with the reason if the scheduler or vLLM fails.
    """
    rounds = [(name, num_blocks + 1, dict[str, object]()) for name in ("stock", "yours")]
    done = subprocess.run(
        [str(environment.PYTHON), "-m", *module_for(PROMPTS, rounds)],
        cwd=CHECKOUT,
        env=environment.variables_for(replace(lineup, runner="absent")),
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if len(found) < len(rounds) or "error" in found[-1]:
        last = done.stderr.strip().splitlines()[-1:] or ["vLLM ended without a word"]
        raise ValueError(found[-1]["error"] if found and "error" in found[-1] else last[0])
    return [run_of(num_blocks, result) for result in found]


def run_of(num_blocks: int, result: dict[str, object]) -> VllmRun:
    made, texts = recording(num_blocks, result), result["texts"]
    assert isinstance(texts, list)
    return VllmRun(made, output_tokens(made), texts={f"r{place}": text.strip() for place, text in enumerate(texts)})


def both(stock: VllmRun | Notice, yours: VllmRun | Notice) -> Pair | Notice:
    """Return the facts about two runs."""
    return show(Pair, stock, yours)


def texts(stock: VllmRun | Notice, yours: VllmRun | Notice) -> Words | Notice:
    """Return each prompt with its text, or with both texts if they differ."""
    return show(_texts, stock, yours)


def _texts(stock: VllmRun, yours: VllmRun) -> Words:
    lines = [f"{Pair(stock, yours).num_equal} of {len(stock.texts)} texts are equal."]
    for prompt, (name, text) in zip(PROMPTS, stock.texts.items(), strict=True):
        other = yours.texts[name]
        lines += [f"\n{name}  {prompt}", *([f"= {text}"] if text == other else [f"stock: {text}", f"yours: {other}"])]
    return Words("\n".join(lines))
