"""`mini-vllm bench preemption`: what preemption gains, and with `--swap` which of its two ways back is faster."""

import json
from typing import Annotated

import typer

from bench.cli.announced import measuring
from bench.cli.features import Quick, Rounds, run
from course.terminal.charts import duration
from course.terminal.console import friendly, make_console
from course.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.step_view import FAINT, STRONG

MODEL = "Llama-3.1-8B"
WHY = (
    "Computing again costs operations: per token, and for long prompts per pair of tokens. Swapping costs bytes, out "
    "and in, and one copy per block, layer, and K or V. Simulated: what either adds to a step of 32 decodes, with "
    "assumed bandwidths of the bus and 5 us per copy, for a prefix that is no longer in the cache. Measured: the "
    "embedded model and phase 10, alone, to and from the same memory, so without any bus."
)


@friendly
def bench_preemption(
    lineup: LineupText = None,
    rounds: Rounds = 3,
    threads: Threads = None,
    quick: Quick = False,
    swap: Annotated[bool, typer.Option("--swap", help="Compute again or swap, by length (phase 10).")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve outputs of unknown length in little memory.

    Blocks on demand, or memory reserved in advance.
    """
    if not swap:
        run("preemption", lineup, rounds, threads, quick, as_json)
        return
    from bench.swap import HOST_BANDWIDTH, MEASURED_LENGTHS, crossing, measure, simulate

    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console, reference=WHOLE_REFERENCE)
    with measuring("Loading torch and the model", 8):
        import torch

        torch.set_num_threads(threads_to_use(threads))
        here = measure(team, 1 if quick else rounds, MEASURED_LENGTHS[: 2 if quick else None])
    compared = {f"{MODEL} on {gpu}, simulated": simulate(gpu, MODEL) for gpu in HOST_BANDWIDTH}
    compared["the embedded model here, measured"] = here
    if as_json:
        typer.echo(json.dumps({name: {"seconds": one, "says": crossing(one)} for name, one in compared.items()}))
        return
    for name, seconds in compared.items():
        console.print(f"\n{name}: {crossing(seconds)}", style=STRONG, markup=False)
        for length, (again, swapped) in seconds.items():
            console.print(f"{length:>7,} tokens: {duration(again):>8} computed again, {duration(swapped):>8} swapped")
    console.print(f"\n{WHY}", style=FAINT, markup=False)
