"""`mini-vllm bench gpu`: a checklist for the first day on a GPU."""

from pathlib import Path
from typing import Annotated

import typer

from mini_vllm_labs.pictures.terminal.charts import facts_table
from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import LineupText
from mini_vllm_labs.pictures.terminal.step_view import FAINT


@friendly
def bench_gpu(
    parts: Annotated[list[str] | None, typer.Argument(help="Parts to run. Default: those not done yet.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figures, one JSON file per part.")] = Path("gpu-bench"),
    lineup: LineupText = None,
) -> None:
    """Go through a checklist on a GPU.

    The checklist has six parts of at most eight minutes each: equal, graphs, bandwidth, workload, in-flight, peer. The
    table at the end shows all parts completed so far.
    """
    from mini_vllm_labs.bench.gpu import LIMIT_SECONDS, PARTS, chosen_parts, rows, run_part

    console = make_console()
    team, chosen = lineup_to_run(lineup, console, reference="solution:1-8"), chosen_parts(parts or [], out)
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: bench gpu needs phase 6, which runs the real model")
    import torch

    if not torch.cuda.is_available():
        raise ValueError("bench gpu needs an NVIDIA GPU, but torch finds none on this machine")
    console.print(whose_code(team), markup=False)
    console.print(f"{len(chosen)} parts of at most {LIMIT_SECONDS // 60} minutes each.", style=FAINT)
    for name in chosen:
        console.print(f"{name}: {PARTS[name]} ...", style=FAINT)
        run_part(name, out, str(team))
    table = list(rows(out))
    console.print(facts_table({what: figure + " (not reached)" * (not is_right) for what, figure, is_right in table}))
    if not all(is_right for *_, is_right in table):
        raise typer.Exit(1)
