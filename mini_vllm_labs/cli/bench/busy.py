"""`mini-vllm bench busy`: decoding on a machine that also runs other programs."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from mini_vllm_labs.bench.busy import DEFAULT, FIXED, NUM_TOKENS, PEERS, BusyPlan, best_of_fixed, busy_cases
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.peer_process import chosen_peers
from mini_vllm_labs.cli.bench.measured import LOADING, run_cases
from mini_vllm_labs.cli.bench.throughput import numbers
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import ProgressReport

SECONDS_OF_TURN = 0.6  # on average: with eight busy processes alongside, a large model's batch takes several seconds
WHY = (
    "Ratios divide a side by the default in the same round. The default adapts its number of threads, and how long "
    "they spin while waiting, to what other programs leave it. On a busy machine a spinning thread uses up the time in "
    "which the awaited thread could run."
)


@friendly
def bench_busy(
    models: Annotated[str, typer.Option(metavar="A,B", help=f"Models: {', '.join(NUM_TOKENS)}.")] = ",".join(
        NUM_TOKENS
    ),
    busy: Annotated[
        str, typer.Option(metavar="A,B", help="How many busy processes run next to the engine.")
    ] = "0,1,2,4,8",
    batch: Annotated[str, typer.Option(metavar="A,B", help="How many requests decode together.")] = "1,8,32",
    peers: Annotated[
        str, typer.Option(metavar="A,B", help=f"Backends to compare with: {', '.join(PEERS)}; 'none'.")
    ] = ",".join(PEERS),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per side; sides take turns after a warm-up.")] = 5,
    lineup: LineupText = None,
    quick: Annotated[bool, typer.Option("--quick", help="A trial run: embedded model, two cases, one round.")] = False,
    as_json: AsJson = False,
) -> None:
    """Decode while other processes are busy, with an adaptive and with a fixed number of threads, and with peers.

    Each variant runs in its own process, and the variants take turns. A table at the end compares the default with the
    best fixed number of threads.
    """
    team = lineup_to_run(lineup, make_console(stderr=as_json))
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: bench busy needs phase 6, which runs the real model")
    chosen = models.split(",")
    if unknown := [name for name in chosen if name not in NUM_TOKENS]:
        raise ValueError(f"--models {unknown[0]}: choose from {', '.join(NUM_TOKENS)}")
    plan = BusyPlan(
        chosen[:1] if quick else chosen,
        [0, 2] if quick else [int(number) for number in numbers("--busy", busy, 0, is_whole=True)],
        [1] if quick else [int(size) for size in numbers("--batch", batch, 1, is_whole=True)],
        chosen_peers(peers, PEERS),
        1 if quick else rounds,
        str(team),
    )
    facts: dict[str, Any] = {}
    closing: list[str | Table] = []

    def cases(report: ProgressReport) -> Iterator[Case]:
        found = list[Case]()
        with tempfile.TemporaryDirectory() as folder:
            for case in busy_cases(plan, Path(folder), facts, report):
                found.append(case)
                yield case
        closing.extend([summary(found), WHY, *(f"{name} is missing: {why}" for name, why in facts["missing"].items())])

    num_turns = len(plan.models) * len(plan.num_busy) * len(plan.batch_sizes) * (4 + len(plan.peers))
    seconds = 10 * len(plan.models) + num_turns * (1 + plan.num_rounds) * SECONDS_OF_TURN
    run_cases(cases, lineup=team, seconds=seconds, as_json=as_json, text=LOADING, closing=closing, facts=facts)


def summary(cases: Sequence[Case]) -> Table:
    """Return one row per case: each side's tokens/s, and the ratio of the default to the best fixed setting."""
    names = list(cases[0].sides) if cases else []
    table = Table("Tokens/s", *names, f"{DEFAULT} / best of {len(FIXED)}", box=None)
    for case in cases:
        best = best_of_fixed(case)
        ratio = f"{1 / case.ratio(best):.2f} ({best})"
        table.add_row(case.title, *(f"{case.sides[name].median:,.0f}" for name in names), ratio)
    return table
