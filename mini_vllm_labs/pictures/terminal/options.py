"""Defines options that several commands share. Options for the engine's settings are in `engine_options.py`."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.environment import NUM_THREADS

if TYPE_CHECKING:
    from mini_vllm import LLM

_WHOSE_CODE = (
    "Whose code runs in which phase: 'solution', 'starter:1-3,solution:4-6', ... Default: LAB_IMPL."
    if solutions_exist()
    else "Which of your phases run: 'starter', 'starter:1-3', ... Default: LAB_IMPL, or all written phases."
)
LineupText = Annotated[str | None, typer.Option("--lineup", metavar="TEXT", help=_WHOSE_CODE)]
ModelName = Annotated[
    str | None, typer.Option("--model", help="A model directory or hub name. Default: the embedded model.")
]
FakeModel = Annotated[
    bool, typer.Option("--fake-model", help="Without phase 6: the fake model's letters in place of real text.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Compute threads. Default: OMP_NUM_THREADS, or one per CPU.", show_default=False),
]


def threads_to_use(chosen: int | None) -> int:
    """Return the number of threads given by `--threads`, or else by `OMP_NUM_THREADS`, or else one per CPU."""
    return chosen or (NUM_THREADS.get() or os.cpu_count() or 1)


def open_llm(
    model: str | None,
    config: EngineConfig,
    lineup: Lineup,
    *,
    record: bool = False,
    dense: bool = False,
    adapters: Mapping[str, str] | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> "LLM":
    """Build an `LLM`; call `on_progress` before each slow part."""
    if lineup.runner != "absent" or dense:
        on_progress("Loading torch and the model ...")
    from mini_vllm import LLM

    return LLM(model, config, lineup, record=record, dense=dense, adapters=adapters)


def adapters_of(options: Sequence[str]) -> dict[str, str]:
    """Parse `NAME=PATH` options into adapters. Raises `ValueError` for any other form or a repeated name."""
    pairs = [option.partition("=") for option in options]
    adapters = {name: path for name, _, path in pairs}
    if len(adapters) < len(pairs) or not all(name and path for name, _, path in pairs):
        raise ValueError(f"adapters must be given as NAME=PATH with different names, got {', '.join(options)}")
    return adapters


def stands_in_for_phase_6(lineup: Lineup, model: str | None, *, fake_model: bool) -> bool:
    """Return whether a plain forward pass replaces phase 6, which is missing even though torch and a model are
    installed."""
    has_model = model is not None or (CHECKOUT / "mini_vllm" / "embedded_model" / "model.safetensors").exists()
    return lineup.runner == "absent" and not fake_model and has_model and find_spec("torch") is not None


def remark_on_phase_6(lineup: Lineup, *, dense: bool) -> str:
    """Return a note on which model generates the text if phase 6 is absent; otherwise return an empty string."""
    if lineup.runner != "absent":
        return ""
    if dense:
        return (
            "Phase 6 is absent: a plain forward pass without a KV cache stands in for it. It computes each text again "
            "in every step, so the seconds here show little of phases 1 to 5."
        )
    return "Phase 6 is absent: the fake model generates letters without meaning."


def chosen_phases(text: str | None, num_phases: int) -> range:
    """Parse `3` or `1-3`. Raises `ValueError` for numbers that are not phases."""
    if text is None:
        return range(1, num_phases + 1)
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isdecimal() and last.isdecimal()):
        raise ValueError(f"--phase {text}: give a phase, 1 to {num_phases}, or a range such as 1-3")
    chosen = range(int(first), int(last) + 1)
    if not chosen or chosen[0] < 1 or chosen[-1] > num_phases:
        raise ValueError(f"--phase {text}: the phases are 1 to {num_phases}")
    return chosen
