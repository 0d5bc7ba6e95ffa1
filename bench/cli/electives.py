"""`mini-vllm bench speculative | async | sampling`: drafts, a step in flight, and what drawing a token costs."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from bench.cli.announced import ModelsThreads, measuring
from course.terminal.charts import measured_bar, rates
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.progress import ProgressReport
from course.terminal.step_view import FAINT, STRONG
from mini_vllm.assembly.lineup import Lineup

if TYPE_CHECKING:
    from bench.overlap import OverlapCase
    from bench.sampling import SamplingCase
    from bench.speculative import SpeculativeCase

WHY_DRAFTS = (
    "Much of a small step is the same for one token and for five: weights are read once, each layer is called once. "
    "So a draft is cheap at batch 1. The larger the batch, the more of a step is arithmetic, and the more a rejected "
    "draft costs. `adaptive` gives each request as many drafts as its own share of accepted ones pays for, none for a "
    "while if not even one pays, and none to any request while more than 8 requests decode. A draft model costs a "
    "forward pass per draft: it pays where the text is the model's own and cannot be looked up."
)
WHY_OVERLAP = (
    "In turn, the runner waits while the engine applies a step, writes its text and plans the next one. Overlapped, "
    "that happens during the forward pass; between two passes only the runner's own work is left: sampling, and the "
    "tensors of the next step. The time is hidden only if the pass does not need it: Python runs one thread at a time, "
    "and two threads may share a core. So a model on a CPU gains little or loses. A pass on a GPU needs neither; there "
    "it has not been measured."
)
Rounds = Annotated[int, typer.Option(min=1, help="Rounds, in turns; the fastest counts.")]
C = TypeVar("C", "OverlapCase", "SpeculativeCase")


@friendly
def bench_speculative(
    lineup: LineupText = None,
    rounds: Rounds = 3,
    threads: ModelsThreads = None,
    quick: Annotated[bool, typer.Option("--quick", help="Batch 1 and 4, one round: a trial run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer chats with drafts and without.

    By prompt lookup, by a draft model; batch 1 to 64.
    """
    team = lineup_to_run(lineup, make_console(stderr=as_json), reference="solution:1-7")
    if "absent" in (team.runner, team.speculation):
        raise ValueError(f"lineup {team}: drafts on the real model need phases 6 and 7")

    def cases(report: ProgressReport) -> "Iterable[SpeculativeCase]":
        from bench.engine_rounds import BATCH_SIZES
        from bench.speculative import measure_speculative

        sizes, num_rounds = (BATCH_SIZES[:2], 1) if quick else (BATCH_SIZES, rounds)
        return measure_speculative(team, threads, sizes, num_rounds, report)

    measure(team, cases, show_speculative, WHY_DRAFTS, 30 if quick else 60 * (1 + rounds), as_json=as_json)


@friendly
def bench_async(
    lineup: LineupText = None,
    rounds: Rounds = 3,
    threads: ModelsThreads = None,
    quick: Annotated[bool, typer.Option("--quick", help="The embedded model, batch 1 and 4, one round.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate with a step in flight and without.

    Measures the gap between forward passes, and tokens per second.
    """
    team = lineup_to_run(lineup, make_console(stderr=as_json), reference="solution:1-6,solution:8")
    if "absent" in (team.runner, team.async_scheduling):
        raise ValueError(f"lineup {team}: a step of the real model in flight needs phases 6 and 8")

    def cases(report: ProgressReport) -> "Iterable[OverlapCase]":
        from bench.engine_rounds import BATCH_SIZES
        from bench.overlap import EMBEDDED, LARGER, measure_overlap

        if quick:
            return measure_overlap(team, threads, BATCH_SIZES[:2], [EMBEDDED], 1, report)
        return measure_overlap(team, threads, BATCH_SIZES, [EMBEDDED, LARGER], rounds, report)

    measure(team, cases, show_overlap, WHY_OVERLAP, 15 if quick else 60 * (1 + rounds), as_json=as_json)


def measure(
    lineup: Lineup,
    measured: Callable[[ProgressReport], Iterable[C]],
    show: Callable[[Console, C], None],
    why: str,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """Measure the cases one after another; print them as JSON, or each as bars and then `why`, the explanation."""
    console, cases = make_console(stderr=as_json), []
    console.print(whose_code(lineup), markup=False)
    with measuring("Loading torch and the model", seconds) as report:
        for case in measured(report):
            cases.append(case)
            show(console, case)
            if not case.same_tokens:
                console.print("The tokens differ, which is a bug.", style="bold red")
    if as_json:
        typer.echo(json.dumps({"lineup": str(lineup), "cases": [case.record() for case in cases]}))
        return
    console.print(f"\n{why}", style=FAINT, markup=False)


def show_speculative(console: Console, case: "SpeculativeCase") -> None:
    """Print a bar for each setting and peer: tokens per second, and the ratio to no drafts."""
    from bench.speculative import ADAPTIVE, ASSISTED_PEER, FIXED, LOOKUP_PEER, MODEL, PLAIN_PEER, SETTINGS, WITHOUT

    title = f"{case.workload}, batch {case.batch_size}; threads: {case.num_threads}"
    console.print(f"\n{title}", style=STRONG, markup=False)
    fastest = max(one.tokens_per_second for one in case.measured.values())
    for name, one in case.measured.items():
        figures = f"{rates(one.tokens_per_second, one.all_seconds)}, x{case.speedup(name):.2f}"
        console.print(measured_bar(name, one.tokens_per_second, fastest, figures, ours=name in SETTINGS))
    for name in (FIXED, ADAPTIVE, MODEL):
        one = case.measured[name]
        shares = [count / one.num_drafts for count in one.accepted_per_pos] if one.num_drafts else []
        accepted = ", ".join(f"{share:.0%}" for share in shares) or "none drafted"
        steps = f"{one.num_steps} steps instead of {case.measured[WITHOUT].num_steps}, "
        steps += f"{one.num_tokens / one.num_steps:.1f} tokens per step"
        console.print(f"{name}: {steps}; accepted by position: {accepted}", style=FAINT)
    if PLAIN_PEER in case.measured:
        lookup, assisted = (case.speedup(name, PLAIN_PEER) for name in (LOOKUP_PEER, ASSISTED_PEER))
        gains = f"x{lookup:.2f} from its own prompt lookup, x{assisted:.2f} from the same draft model"
        console.print(f"transformers gains {gains}", style=FAINT)


def show_overlap(console: Console, case: "OverlapCase") -> None:
    """Print a bar for each way: tokens per second, and the time between two forward passes."""
    from bench.overlap import OVERLAPPED

    console.print(f"\n{case.model}, batch {case.batch_size}; threads: {case.num_threads}", style=STRONG, markup=False)
    fastest = max(timed.tokens_per_second for timed in case.timed.values())
    for way, timed in case.timed.items():
        figures = rates(timed.tokens_per_second, timed.all_seconds)
        console.print(measured_bar(way, timed.tokens_per_second, fastest, figures, ours=way == OVERLAPPED))
    for way, timed in case.timed.items():
        gap = f"{timed.gap_ms:.2f} ms between two passes, {timed.share_between:.0%} of the time"
        console.print(f"{way}: {gap}", style=FAINT)
    console.print(f"x{case.speedup:.2f} with a step in flight", style=FAINT)


@friendly
def bench_sampling(
    lineup: LineupText = None,
    rounds: Rounds = 5,
    threads: Threads = None,
    quick: Annotated[bool, typer.Option("--quick", help="The embedded model, batch 1, 4 and 16, one round.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate greedily, at a temperature, with cuts, under a regex.

    Three models, the last with a vocabulary of 151,936; batch 1 to 64. The regex needs phase 9 and the embedded model.
    At batch 16 and 64 of the first two: which share of the time goes to masks, of phase 9 and of llguidance (if it is
    installed).
    """
    from bench.engine_rounds import BATCH_SIZES
    from bench.sampling import EMBEDDED, LARGER, WIDE, measure_sampling

    console, cases = make_console(stderr=as_json), []
    team = lineup_to_run(lineup, console, reference="solution:1-6,solution:9")
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: sampling needs phase 6")
    num_threads = threads_to_use(threads)
    console.print(whose_code(team), markup=False)
    models, sizes = ((EMBEDDED,), BATCH_SIZES[:3]) if quick else ((EMBEDDED, LARGER, WIDE), BATCH_SIZES)
    console.print(f"{len(models) * len(sizes)} cases. In percent: of greedy.", style=FAINT)
    console.print("Two cuts: top_k 50, then top_p 0.9.", style=FAINT)
    with measuring("Loading torch and the model", 40 if quick else 120 * rounds) as report:
        for case in measure_sampling(team, num_threads, sizes, models, 1 if quick else rounds, report):
            cases.append(case)
            show_sampling(console, case)
    if as_json:
        record = {"lineup": str(team), "num_threads": num_threads, "cases": [asdict(case) for case in cases]}
        typer.echo(json.dumps(record))


def show_sampling(console: Console, case: "SamplingCase") -> None:
    """Print a bar for each way: the median of tokens per second, their range, and the share of greedy's."""
    title = f"\n{case.model}, {case.vocab_size:,} tokens in the vocabulary, batch {case.batch_size}"
    console.print(title, style=STRONG, markup=False)
    fastest = max(median(found) for found in case.rates.values())
    for way, found in case.rates.items():
        figures = f"{median(found):,.0f} tokens/s ({min(found):,.0f} to {max(found):,.0f})"
        share = case.share_of_greedy(way)
        console.print(measured_bar(way, median(found), fastest, f"{figures}, {share:.0%}", ours=True))
    for grammar, share in case.mask_shares.items():
        console.print(f"masks, {grammar}: {share:.1%} of the time", style=FAINT, markup=False)
