"""`mini-vllm bench prefix | chunked | preemption`: the gain from a feature."""

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from bench.cli.announced import measuring
from bench.features import FeatureComparison, as_record, measure_feature
from course.terminal.charts import duration, measured_bar, spread
from course.terminal.console import friendly, make_console
from course.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.step_view import FAINT, STRONG

Rounds = Annotated[int, typer.Option(min=1, help="Rounds with and without, in turns; the fastest counts.")]
Quick = Annotated[bool, typer.Option("--quick", help="A tenth of the workload, one round: a trial run.")]
MODEL = "Llama-3.1-8B"
WHY = (
    "Computing again costs operations: per token, and for long prompts per pair of tokens. Swapping costs bytes, out "
    "and in, and one copy per block, layer, and K or V. Simulated: what either adds to a step of 32 decodes, with "
    "assumed bandwidths of the bus and 5 us per copy, for a prefix that is no longer in the cache. Measured: the "
    "embedded model and phase 10, alone, without the step that both need, to and from the same memory: without a bus."
)


def feature_command(name: str, text: str) -> Callable[..., None]:
    """Return the command that measures one feature, with `text` as its help; all take the same options."""

    @friendly
    def command(
        lineup: LineupText = None,
        rounds: Rounds = 3,
        threads: Threads = None,
        quick: Quick = False,
        as_json: AsJson = False,
    ) -> None:
        run(name, lineup, rounds, threads, quick, as_json)

    command.__doc__ = text  # where typer looks for the help
    return command


bench_prefix = feature_command("prefix", "Serve many questions about one document, with and without caching.")
bench_chunked = feature_command(
    "chunked",
    "Serve long documents beside chats, with and without chunks.\n\nThe documents arrive while the chats decode.",
)


def run(name: str, lineup: str | None, rounds: int, threads: int | None, quick: bool, as_json: bool) -> None:
    """Measure a feature and print the result."""
    scale, num_rounds = (0.1, 1) if quick else (1.0, rounds)
    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console)
    with measuring("Loading torch and the model", 8 if quick else 6 + 3 * rounds) as report:
        comparison = measure_feature(name, team, scale, num_rounds, threads_to_use(threads), report)
    if as_json:
        typer.echo(json.dumps({"feature": name, **as_record(comparison)}))
    else:
        show(console, comparison)


def show(console: Console, comparison: FeatureComparison) -> None:
    """Print a pair of bars for each figure."""
    feature = comparison.feature
    same, both = comparison.same_tokens
    console.print(f"{feature.title}: {feature.workload}", style=STRONG, markup=False)
    for name, (with_it, without) in comparison.figures().items():
        is_rate, scale = "per second" in name, max(with_it, without)
        console.print(f"\n{name}", markup=False)
        for side, value in (("with it", with_it), ("without", without)):
            number = f"{value:.0f}" if is_rate else duration(value)
            words = f"{number:>8}" + (f"   x{with_it / without:.2f}" if side == "with it" else "")
            console.print(measured_bar(side, value, scale, words, ours=side == "with it"))
    absent = f" and {', '.join(feature.absent_without)} absent" if feature.absent_without else ""
    console.print(
        f"\nwith it: {settings_text(dict(feature.with_it))}; without: {settings_text(dict(feature.without))}{absent}. "
        f"Same tokens in {same} of {both} requests. The embedded model; threads: {comparison.num_threads}. "
        f"With it {spread(comparison.with_it.all_seconds)}; without {spread(comparison.without.all_seconds)}.",
        style=FAINT,
        markup=False,
    )


def settings_text(settings: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "the defaults"


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
