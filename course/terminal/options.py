"""The options that several commands share, and what they are turned into."""

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from course.workloads.progress import OnProgress
from mini_vllm.config import EngineConfig
from mini_vllm.seams.lineup import Lineup, solutions_exist

if TYPE_CHECKING:
    from mini_vllm.llm import LLM

_WHOSE_CODE = (
    "Whose code runs in which phase: 'solution', 'starter:1-3,solution:4-6', ... Default: LAB_IMPL."
    if solutions_exist()
    else "Which of your phases run: 'starter', 'starter:1-3', ... Default: LAB_IMPL, or all that you have written."
)
LineupText = Annotated[str | None, typer.Option("--lineup", metavar="TEXT", help=_WHOSE_CODE)]
ModelName = Annotated[
    str | None, typer.Option("--model", help="A model directory or hub name. Default: the embedded model.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads that compute. Default: OMP_NUM_THREADS, or one per CPU.", show_default=False),
]
_PANEL = "Engine settings, named as in vLLM"
MaxNumSeqs = Annotated[int | None, typer.Option(help="Most running requests.", rich_help_panel=_PANEL)]
MaxNumBatchedTokens = Annotated[int | None, typer.Option(help="Token budget of a step.", rich_help_panel=_PANEL)]
LongPrefillTokenThreshold = Annotated[
    int | None, typer.Option(help="Most tokens of one request in a step; 0: no limit.", rich_help_panel=_PANEL)
]
MaxModelLen = Annotated[int | None, typer.Option(help="Most tokens of a request.", rich_help_panel=_PANEL)]
BlockSize = Annotated[int | None, typer.Option(help="Tokens per block.", rich_help_panel=_PANEL)]
NumGpuBlocks = Annotated[int | None, typer.Option(help="Blocks, null block included.", rich_help_panel=_PANEL)]
EnablePrefixCaching = Annotated[
    bool | None,
    typer.Option("--enable-prefix-caching/--no-enable-prefix-caching", show_default=False, rich_help_panel=_PANEL),
]
EnableChunkedPrefill = Annotated[
    bool | None,
    typer.Option("--enable-chunked-prefill/--no-enable-chunked-prefill", show_default=False, rich_help_panel=_PANEL),
]
AdmissionGuard = Annotated[
    bool | None,
    typer.Option("--admission-guard/--no-admission-guard", show_default=False, rich_help_panel=_PANEL),
]
TensorParallelSize = Annotated[
    int | None, typer.Option(help="Processes that share the model, a GPU each.", rich_help_panel=_PANEL)
]
Dtype = Annotated[
    Literal["float32", "bfloat16"] | None,
    typer.Option(help="What weights and cache are kept in. Default: float32.", rich_help_panel=_PANEL),
]
EnforceEager = Annotated[
    bool | None,
    typer.Option(
        "--enforce-eager/--no-enforce-eager",
        help="On a GPU, run every step without CUDA graphs.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
PrepackWeights = Annotated[
    bool | None,
    typer.Option(
        "--prepack-weights/--no-prepack-weights",
        help="Reorder the weights for this CPU at load.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
SchedulingPolicy = Annotated[
    Literal["fcfs", "priority"] | None, typer.Option("--scheduling-policy", rich_help_panel=_PANEL)
]
CheckInvariants = Annotated[
    bool | None,
    typer.Option(
        "--check-invariants/--no-check-invariants",
        help="Check queues, counters and blocks after every step. Not in vLLM.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def threads_to_use(chosen: int | None) -> int:
    """Return the threads of `--threads`, else of `OMP_NUM_THREADS`, else one for each CPU."""
    return chosen or int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def engine_config(defaults: EngineConfig, **chosen: object) -> EngineConfig:
    """Return `defaults` with the settings that somebody chose (not None). Raises `ValueError` as `EngineConfig`."""
    from dataclasses import asdict

    return EngineConfig(**{**asdict(defaults), **{name: value for name, value in chosen.items() if value is not None}})


def open_llm(
    model: str | None,
    config: EngineConfig,
    lineup: Lineup,
    *,
    record: bool = False,
    on_progress: OnProgress = lambda text: None,
) -> "LLM":
    """Build an `LLM`; `on_progress` is called before each part that takes long."""
    from mini_vllm.llm import LLM

    if lineup.runner != "absent":
        on_progress("Loading torch and the model ...")
    return LLM(model, config, lineup, record=record)


def chosen_phases(text: str | None, num_phases: int) -> range:
    """Read `3` or `1-3`. Raises `ValueError` if these are no phases."""
    if text is None:
        return range(1, num_phases + 1)
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isdecimal() and last.isdecimal()):
        raise ValueError(f"--phase {text}: give a phase, 1 to {num_phases}, or a range such as 1-3")
    chosen = range(int(first), int(last) + 1)
    if not chosen or chosen[0] < 1 or chosen[-1] > num_phases:
        raise ValueError(f"--phase {text}: there are phases 1 to {num_phases}")
    return chosen
