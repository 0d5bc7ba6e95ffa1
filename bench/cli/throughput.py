"""`mini-vllm bench throughput`: whole workloads beside what a user would run instead."""

import json
import tempfile
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from bench.cli.announced import measuring
from bench.model_directory import EMBEDDED, RANDOM, model_directory
from bench.peer_process import BACKENDS, PeerError, chosen_peers
from bench.plan import FULL, OURS, QUICK, STREAM, ThroughputPlan
from bench.slower import BETWEEN, RATE, figures_against
from bench.throughput import Results, as_record, run_throughput, seconds_by_operator
from course.terminal.charts import duration, measured_bar, shares, spread
from course.terminal.console import fail, friendly, make_console
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG
from course.workloads.fallbacks import whole_prompts


@friendly
def bench_throughput(
    model: Annotated[
        str, typer.Option(help=f"'{EMBEDDED}', '{RANDOM}' (random weights), or the path of a model directory.")
    ] = EMBEDDED,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 64,
    peers: Annotated[
        str, typer.Option(metavar="A,B", help=f"Backends to compare with: {', '.join(BACKENDS[1:])}; 'none'.")
    ] = ",".join(BACKENDS[1:]),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the fastest of each backend counts.")] = 2,
    temperature: Annotated[
        str, typer.Option(metavar="A,B", help="Temperatures of the batches and of the last streams.")
    ] = "0,0.8",
    batch: Annotated[
        str, typer.Option(metavar="A,B", help="Sizes of batches of one length, in and out; 'none'.")
    ] = "1,4,16,64",
    threads: Threads = None,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Type of weights and KV cache.")] = "float32",
    lineup: LineupText = None,
    quick: Annotated[bool, typer.Option("--quick", help="12 short requests, one round: a trial run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve chats and documents on mini-vLLM and its peers.

    Many short chats and a few long documents.

    All at once, then as a stream; then one round of questions that share a document. Last, batches of one length:
    the best case of transformers' `generate`. A table at the end says where we are slower.

    Each backend has its own process and the same requests, threads and KV cache size; rounds are taken in turns.
    """
    names = (OURS, *chosen_peers(peers, BACKENDS[1:]))
    temperatures = numbers("--temperature", temperature, 0)
    batch_sizes = [int(size) for size in numbers("--batch", batch, 1)]
    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console)
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: throughput needs phase 6, which runs the real model")
    from bench.models import model_size

    with tempfile.TemporaryDirectory() as folder:
        console.print(f"Model: {model}, {dtype}. Loading torch ...", style=FAINT, markup=False)
        directory = model_directory(model, Path(folder))
        size = model_size(directory)
        plan = ThroughputPlan(
            directory,
            size.vocab_size,
            min(requests, 12) if quick else requests,
            1 if quick else rounds,
            threads_to_use(threads),
            names,
            dtype,
            str(team),
            QUICK if quick else FULL,
            batch_sizes,
            temperatures,
        )
        if team.chunking == "absent":
            console.print(whole_prompts(plan.settings().max_num_batched_tokens))
        try:
            with measuring("Starting the backends", expected_seconds(plan, size.num_parameters)) as report:
                results = run_throughput(plan, report)
            with reported("Measuring where the time goes (the last part)"):
                explained = efficiency_of_ours(plan, results)
        except PeerError as error:
            fail(str(error), 1)
        record = {"model": model, "num_parameters": size.num_parameters, **as_record(plan, results), **explained}
    if as_json:
        typer.echo(json.dumps(record))
    else:
        show(console, record)


def numbers(option: str, text: str, minimum: int) -> list[float]:
    """Return the different numbers of an option, none for 'none'. Raises `ValueError`."""
    try:
        found = [float(part) for part in text.split(",")] if text != "none" else []
    except ValueError:
        found = [-1.0]
    if not all(minimum <= number < inf and (not minimum or number.is_integer()) for number in found):
        kind = "whole numbers" if minimum else "numbers"
        raise ValueError(f"{option} {text}: {kind} of at least {minimum}, separated by commas, or 'none'")
    return list(dict.fromkeys(found))


def expected_seconds(plan: ThroughputPlan, num_parameters: int) -> float:
    """Return about how long a plan takes: recorded runs of two models, in proportion to what is asked for."""
    loading = 10 * len(plan.backends) + num_parameters / 5e6
    if plan.sizes == QUICK:
        return loading + num_parameters / 2e6
    work = 12 + 240 * num_parameters / 144e6  # one backend, 64 requests, two rounds, without the axes
    work *= len(plan.backends) * plan.num_requests / 64 + 0.15 * len(plan.backends) * len(list(plan.axes(1.0)))
    return loading + work * plan.num_rounds / 2


def efficiency_of_ours(plan: ThroughputPlan, results: Results) -> dict[str, Any]:
    """Return mini-vLLM's share of the roofline by workload, and the seconds by operator."""
    from bench.roofline import efficiency, machine_rates

    rates = machine_rates(plan.dtype, plan.num_threads)
    explained = {
        workload: efficiency(entries[OURS].served, plan.model, plan.dtype, rates)
        for workload, entries in results.entries.items()
    }
    return {"explained": explained, "seconds_by_operator": seconds_by_operator(plan)}


def show(console: Console, record: dict[str, Any]) -> None:
    """Print a chart per workload, the missing backends, and where mini-vLLM's time goes."""
    for workload, entries in record["workloads"].items():
        console.print(f"\n{workload}: output tokens per second", style=STRONG)
        scale = max(entry["output_tokens_per_second"] for entry in entries.values())
        for name, entry in entries.items():
            console.print(
                measured_bar(name, entry["output_tokens_per_second"], scale, figures(entry), ours=name == OURS)
            )
        console.print(f"{'':23} first token p50, p99; between tokens p50, p99; peak", style=FAINT)
        for name, entry in entries.items():
            console.print(f"{name:>23} {latencies(entry)}", markup=False)
        rounds = "; ".join(f"{name} {spread(entry['all_seconds'])}" for name, entry in entries.items())
        console.print(f"All rounds: {rounds}.", style=FAINT, markup=False)
        console.print(explanation(record["explained"][workload]), style=FAINT, markup=False)
    console.print(f"\nA round with every operator timed: {shares(record['seconds_by_operator'])}.", style=FAINT)
    if len(record["workloads"][STREAM]) > 1:
        show_slower(console, record)
    for name, reason in record["missing"].items():
        console.print(f"\n{name} is missing: {reason}", style=FAINT, markup=False, soft_wrap=True)
    console.print(
        "\nx: our tokens per second over theirs. equal: requests with the same tokens as ours, in all rounds. "
        "One-by-one serves only the first requests. In a stream no backend can be faster than the arrivals: compare "
        "the latencies.",
        style=FAINT,
    )


def show_slower(console: Console, record: dict[str, Any]) -> None:
    """Print a table with a row for each batch and stream, and two ratios for each peer."""
    workloads = {STREAM: record["workloads"][STREAM], **record["axes"]}
    peers = [name for name in workloads[STREAM] if name != OURS]
    table = Table("Ours against", *(name.removeprefix("transformers-") for name in peers), box=None)
    for workload, entries in workloads.items():
        table.add_row(workload, *(versus(workload, entries, peer) if peer in entries else "" for peer in peers))
    console.print("\nWhere we are slower", style=STRONG)
    console.print(table)
    console.print(
        "Tokens per second, then the median time between tokens; over 1, ours is faster. *: slower.", style=FAINT
    )


def versus(workload: str, entries: dict[str, Any], peer: str) -> str:
    """Return the two ratios of a cell."""
    shown = [one for one in figures_against(workload, entries, peer) if one.words in (RATE, BETWEEN)]
    return " ".join(f"{one.times:.2f}{'*' if one.slower else ' '}" for one in shown)


def figures(entry: dict[str, Any]) -> str:
    """Return the numbers beside a bar."""
    same, both = entry["equal_requests"]
    faster = f"x{entry['ours_is_faster_by']:.2f}"
    return f"{entry['output_tokens_per_second']:6.0f} {faster:>7}  {same}/{both} equal"


def latencies(entry: dict[str, Any]) -> str:
    """Return the latencies and the memory of a backend."""
    first, between = entry["time_to_first_token"], entry["inter_token_latency"]
    gaps = "none" if between is None else f"{duration(between['p50']):>7} {duration(between['p99']):>7}"
    return (
        f"{duration(first['p50']):>7} {duration(first['p99']):>7}   {gaps}   {entry['peak_rss_bytes'] / 2**20:,.0f} MiB"
    )


def explanation(explained: dict[str, Any]) -> str:
    """Return where mini-vLLM's time goes, in one or two sentences."""
    seconds, overhead = explained["seconds"], explained["overhead"]
    places = ", ".join(
        f"{seconds[name] / seconds['all']:.1%} {words}"
        for name, words in (
            ("forward_pass", "forward pass"),
            ("batch_and_sampling", "batch and sampling"),
            ("scheduling_and_outputs", "scheduling and outputs"),
        )
    )
    return (
        f"Our time: {places}. {explained['share_of_roofline']:.0%} of the roofline "
        f"({explained['read_bytes_per_second'] / 1e9:.1f} GB/s, {explained['flops_per_second'] / 1e9:.0f} GFLOP/s). "
        f"Steps of {overhead['at_least_requests']} requests and more: {overhead['share']:.1%} is not the forward pass."
    )
