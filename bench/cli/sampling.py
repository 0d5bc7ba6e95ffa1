"""`mini-vllm bench sampling`: what a temperature, a cut and a regex cost beside greedy text."""

import json
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bench.cli.announced import measuring
from bench.cli.electives import Rounds
from course.terminal.charts import measured_bar
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.step_view import FAINT, STRONG

if TYPE_CHECKING:
    from bench.sampling import SamplingCase


@friendly
def bench_sampling(
    lineup: LineupText = None,
    rounds: Rounds = 5,
    threads: Threads = None,
    quick: Annotated[bool, typer.Option("--quick", help="The embedded model, batch 1 and 4, one round.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate greedily, at a temperature, with cuts, under a regex.

    Three models, the last with a vocabulary of 151,936; batch 1 to 64. The regex needs phase 9 and the embedded model.
    """
    from bench.engine_rounds import BATCH_SIZES
    from bench.sampling import EMBEDDED, LARGER, WIDE, measure_sampling

    console, cases = make_console(stderr=as_json), []
    team = lineup_to_run(lineup, console, reference="solution:1-6,solution:9")
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: sampling needs phase 6")
    num_threads = threads_to_use(threads)
    console.print(whose_code(team), markup=False)
    models, sizes = ((EMBEDDED,), BATCH_SIZES[:2]) if quick else ((EMBEDDED, LARGER, WIDE), BATCH_SIZES)
    console.print(f"{len(models) * len(sizes)} cases. In percent: of greedy.", style=FAINT)
    console.print("Two cuts: top_k 50, then top_p 0.9.", style=FAINT)
    with measuring("Loading torch and the model", 40 if quick else 120 * rounds) as report:
        for case in measure_sampling(team, num_threads, sizes, models, 1 if quick else rounds, report):
            cases.append(case)
            show(console, case)
    if as_json:
        record = {"lineup": str(team), "num_threads": num_threads, "cases": [asdict(case) for case in cases]}
        typer.echo(json.dumps(record))


def show(console: Console, case: "SamplingCase") -> None:
    """Print a bar for each way: the median of tokens per second, their range, and the share of greedy's."""
    title = f"\n{case.model}, {case.vocab_size:,} tokens in the vocabulary, batch {case.batch_size}"
    console.print(title, style=STRONG, markup=False)
    fastest = max(median(rates) for rates in case.rates.values())
    for way, rates in case.rates.items():
        figures = f"{median(rates):,.0f} tokens/s ({min(rates):,.0f} to {max(rates):,.0f})"
        share = case.share_of_greedy(way)
        console.print(measured_bar(way, median(rates), fastest, f"{figures}, {share:.0%}", ours=True))
