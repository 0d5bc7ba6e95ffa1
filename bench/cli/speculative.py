"""`mini-vllm bench speculative`: where drafts pay, and where they cost."""

import json
from typing import Annotated

import typer
from rich.console import Console

from bench.speculative import (
    ADAPTIVE,
    ASSISTED_PEER,
    BATCH_SIZES,
    FIXED,
    LOOKUP_PEER,
    MODEL,
    PLAIN_PEER,
    SETTINGS,
    WITHOUT,
    Case,
    measure_speculative,
)
from course.terminal.charts import measured_bar
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG

WHY = (
    "Much of a small step is the same for one token and for five: weights are read once, each layer is called once. "
    "So a draft is cheap at batch 1. The larger the batch, the more of a step is arithmetic, and the more a rejected "
    "draft costs. `adaptive` gives each request as many drafts as pay by its own share of right ones, none for a "
    "while if not even one pays, and no request any while more than 8 requests decode. A draft model costs a forward "
    "pass per draft: it pays where the text is the model's own and cannot be looked up."
)


@friendly
def bench_speculative(
    lineup: LineupText = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in turns; the fastest counts.")] = 3,
    threads: Threads = None,
    quick: Annotated[bool, typer.Option("--quick", help="Batch 1 and 4, one round: a trial run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer chats with drafts and without.

    By prompt lookup, by a draft model; batch 1 to 64.
    """
    import torch

    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console, reference="solution:1-7")
    if "absent" in (team.runner, team.speculation):
        raise ValueError(f"lineup {team}: drafts on the real model need phases 6 and 7")
    torch.set_num_threads(threads_to_use(threads))
    with reported("Loading torch and the model") as report:
        sizes, num_rounds = (BATCH_SIZES[:2], 1) if quick else (BATCH_SIZES, rounds)
        cases = list(measure_speculative(team, sizes, num_rounds, report))
    if as_json:
        typer.echo(json.dumps({"lineup": str(team), "cases": [case.record() for case in cases]}))
        return
    console.print(whose_code(team), markup=False)
    for case in cases:
        show(console, case)
    console.print(f"\n{WHY}", style=FAINT, markup=False)


def show(console: Console, case: Case) -> None:
    """Print a bar for each setting and peer: tokens per second, and the ratio to no drafts."""
    console.print(f"\n{case.workload}, batch {case.batch_size}", style=STRONG, markup=False)
    fastest = max(one.tokens_per_second for one in case.measured.values())
    for name, one in case.measured.items():
        figures = f"{one.tokens_per_second:,.0f} tokens/s, x{case.speedup(name):.2f}"
        console.print(measured_bar(name, one.tokens_per_second, fastest, figures, ours=name in SETTINGS))
    for name in (FIXED, ADAPTIVE, MODEL):
        one = case.measured[name]
        shares = [count / one.num_drafts for count in one.accepted_per_pos] if one.num_drafts else []
        accepted = ", ".join(f"{share:.0%}" for share in shares) or "none drafted"
        steps = f"{one.num_steps} steps instead of {case.measured[WITHOUT].num_steps}, "
        steps += f"{one.num_tokens / one.num_steps:.1f} tokens per step"
        console.print(f"{name}: {steps}; accepted by position: {accepted}", style=FAINT)
    if PLAIN_PEER in case.measured:
        gains = [case.speedup(name, PLAIN_PEER) for name in (LOOKUP_PEER, ASSISTED_PEER)]
        text = "transformers gains x{:.2f} from its own prompt lookup, x{:.2f} from the same draft model"
        console.print(text.format(*gains), style=FAINT)
    if not case.same_tokens:
        console.print("The tokens differ between settings: that must not be.", style="bold red")
