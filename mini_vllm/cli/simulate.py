"""`mini-vllm simulate`: a hundred thousand requests on a GPU that is not here."""

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from mini_vllm.cli.console import friendly, is_live, make_console, whose_code
from mini_vllm.cli.options import (
    AdmissionGuard,
    BlockSize,
    EnableChunkedPrefill,
    EnablePrefixCaching,
    LineupText,
    LongPrefillTokenThreshold,
    MaxModelLen,
    MaxNumBatchedTokens,
    MaxNumSeqs,
    NumGpuBlocks,
    engine_config,
)
from mini_vllm.cli.step_view import FAINT, STRONG
from mini_vllm.cli.yours import lineup_to_run
from mini_vllm.lineup import Lineup
from mini_vllm.simulator.calibration import read_calibration
from mini_vllm.simulator.experiment import ENGINE, Experiment, parse_sweep
from mini_vllm.simulator.gpus import GPUS
from mini_vllm.simulator.model_shapes import MODEL_SHAPES
from mini_vllm.simulator.policies import POLICIES
from mini_vllm.simulator.served import Served, Slo, percentiles, weighted_mean, weighted_percentiles
from mini_vllm.simulator.workloads import WORKLOADS
from mini_vllm.views.palette import OKABE_ITO

PERCENTS = (50, 90, 95, 99)
BAR_LENGTH = 10


@dataclass(frozen=True)
class Result:
    """One simulation that has been run. `wall_seconds` is what it took here."""

    experiment: Experiment
    served: Served
    wall_seconds: float


@friendly
def simulate(
    workload: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")] = "chat",
    gpu: Annotated[str, typer.Option(help=f"One of {', '.join(gpu.name for gpu in GPUS)}.")] = "H100",
    model: Annotated[str, typer.Option(help=f"One of {', '.join(s.name for s in MODEL_SHAPES)}.")] = "Llama-3.1-8B",
    num_gpus: Annotated[int, typer.Option(min=1, help="GPUs that work as one.")] = 1,
    requests: Annotated[int, typer.Option(min=1, help="How many requests come.")] = 100_000,
    rate: Annotated[
        float | None, typer.Option(help="Requests per second. Default: about 70% of what can be served.")
    ] = None,
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = "fcfs",
    slo_ttft: Annotated[float, typer.Option(help="Seconds to the first token that are still good.")] = 1.0,
    slo_itl: Annotated[float, typer.Option(help="Mean seconds from token to token that are still good.")] = 0.05,
    sweep: Annotated[
        str | None, typer.Option(metavar="SETTING=A,B,C", help="Run once for each value of a setting.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Multiply all lengths, for a model that takes only short ones.")] = 1.0,
    calibration: Annotated[
        str | None, typer.Option(metavar="FILE", help="A cost model that `mini-vllm calibrate` has written.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other requests.")] = 0,
    lineup: LineupText = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
    max_num_seqs: MaxNumSeqs = None,
    max_num_batched_tokens: MaxNumBatchedTokens = None,
    long_prefill_token_threshold: LongPrefillTokenThreshold = None,
    max_model_len: MaxModelLen = None,
    block_size: BlockSize = None,
    num_gpu_blocks: NumGpuBlocks = None,
    enable_prefix_caching: EnablePrefixCaching = None,
    enable_chunked_prefill: EnableChunkedPrefill = None,
    admission_guard: AdmissionGuard = None,
) -> None:
    """Serve a named workload with the real scheduler on simulated time, and print what users would feel.

    A step takes what a roofline of the GPU and the model says: its bytes over the bandwidth or its
    operations over the arithmetic, whichever is longer, and some overhead.
    """
    engine = engine_config(
        ENGINE,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        long_prefill_token_threshold=long_prefill_token_threshold,
        max_model_len=max_model_len,
        block_size=block_size,
        num_gpu_blocks=num_gpu_blocks,
        enable_prefix_caching=enable_prefix_caching,
        enable_chunked_prefill=enable_chunked_prefill,
        admission_guard=admission_guard,
    )
    calibrated = read_calibration(calibration) if calibration is not None else None
    base = Experiment(
        workload, requests, rate, seed, gpu, model, num_gpus, policy, engine, scale, calibrated
    ).with_rate()
    slo = Slo(slo_ttft, slo_itl)
    setting, values = parse_sweep(sweep) if sweep is not None else ("", [""])
    experiments = [base.with_setting(setting, value) if setting else base for value in values]
    for experiment in experiments:
        experiment.require_legal()
    console = make_console(stderr=as_json)
    team = replace(lineup_to_run(lineup, console), runner="absent")
    if not as_json:
        console.print(whose_code(team), markup=False)
        console.print(conditions(base, setting), style=FAINT, markup=False)
    results = run_all(experiments, team, console)
    if as_json:
        records = [as_record(result, slo) for result in results]
        typer.echo(json.dumps({"sweep": setting, "values": values, "runs": records} if setting else records[0]))
    elif setting:
        console.print(sweep_table(setting, values, results, slo))
        console.print(legend(slo), style=FAINT)
    else:
        show(console, results[0], slo)


def run_all(experiments: list[Experiment], lineup: Lineup, console: Console) -> list[Result]:
    """Run the experiments one after the other, with a progress bar on a terminal."""
    total = sum(experiment.num_requests for experiment in experiments)
    columns = (TextColumn("Simulating"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} requests"))
    bar = Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not is_live(console),
        transient=True,
    )
    results, done = [], 0
    with bar:
        task = bar.add_task("", total=total)
        for experiment in experiments:
            before = done

            def report(num_finished: int, before: int = before) -> None:
                bar.update(task, completed=before + num_finished)

            results.append(run_one(experiment, lineup, report))
            done += experiment.num_requests
    return results


def run_one(experiment: Experiment, lineup: Lineup, on_progress: Callable[[int], None]) -> Result:
    """Run one experiment and take its time."""
    started = time.perf_counter()
    gc.freeze()
    try:
        served = experiment.run(lineup, on_progress)
    finally:
        gc.unfreeze()
    return Result(experiment, served, time.perf_counter() - started)


def conditions(base: Experiment, setting: str) -> str:
    """Return what runs where, in words."""
    cost = base.cost
    if base.calibrated is None:
        where = f"{base.model} on {base.num_gpus} x {base.gpu}"
        what = " (80% of the bandwidth, 60% of the arithmetic: assumed, not measured)"
    else:
        where, what = f"{base.calibrated.model} as calibrated", ""
    config = base.resolved_engine()
    return (
        f"{where}{what}: {cost.bandwidth / 1e9:,.0f} GB/s, {cost.flop_rate / 1e12:,.3g} TFLOP/s, "
        f"{cost.seconds_per_step * 1e3:.3g} ms a step, {(config.num_gpu_blocks or 1) - 1:,} blocks of "
        f"{config.block_size}. {base.num_requests:,} requests of {base.workload!r} at {base.rate:g} a second"
        + (f", for each value of {setting}." if setting else ".")
    )


def show(console: Console, result: Result, slo: Slo) -> None:
    """Print one simulation."""
    served, numbers = result.served, as_record(result, slo)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("ms")
    for heading in ("mean", *(f"p{percent}" for percent in PERCENTS)):
        table.add_column(heading, justify="right")
    for title, key in (
        ("time to first token", "time_to_first_token"),
        ("inter-token latency", "inter_token_latency"),
        ("whole request", "e2e_latency"),
    ):
        table.add_row(title, *(f"{1e3 * value:,.1f}" for value in numbers[key].values()))
    console.print(table)
    totals = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    totals.add_column(style=STRONG)
    totals.add_column()
    for title, value in (
        ("throughput", f"{served.output_tokens_per_second:,.0f} output tokens/s over {served.seconds:,.0f} s"),
        ("goodput", f"{served.goodput(slo):,.2f} requests/s: {served.share_good(slo):.1%} kept the SLO"),
        ("most at once", f"{served.most_running} requests, {served.peak_context_tokens:,} tokens of context"),
        ("preemptions", f"{served.num_preemptions:,}"),
        ("prefix cache", f"{served.hit_rate:.1%} of the tokens were found"),
        ("steps", f"{served.num_steps:,}, {served.num_computed_tokens / served.num_steps:,.1f} tokens each"),
        ("this took", f"{result.wall_seconds:,.1f} s here"),
    ):
        totals.add_row(title, value)
    console.print(totals)
    console.print(legend(slo), style=FAINT)


def legend(slo: Slo) -> str:
    """Return what the words mean."""
    return (
        f"\nSLO: first token within {slo.time_to_first_token:g} s, then {slo.inter_token_latency * 1e3:g} ms from "
        f"token to token on average. Goodput counts who kept both. Seconds of simulated time."
    )


def sweep_table(setting: str, values: list[str], results: list[Result], slo: Slo) -> Table:
    """Return one row per value. It fits 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title=setting, title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in (
        "TTFT\np50 ms",
        "TTFT\np99 ms",
        "ITL\np50 ms",
        "ITL\np99 ms",
        "output\ntok/s",
        "pre-\nempted",
        "hits",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("kept\nthe SLO", no_wrap=True)
    for value, result in zip(values, results, strict=True):
        served, numbers = result.served, as_record(result, slo)
        share = served.share_good(slo)
        table.add_row(
            value,
            *(
                f"{1e3 * numbers[key][f'p{percent}']:,.1f}"
                for key in ("time_to_first_token", "inter_token_latency")
                for percent in (50, 99)
            ),
            f"{served.output_tokens_per_second:,.0f}",
            f"{served.num_preemptions:,}",
            f"{served.hit_rate:.0%}",
            f"[{OKABE_ITO[1][0]}]{'█' * round(BAR_LENGTH * share)}[/] {share:.0%}",
        )
    return table


def as_record(result: Result, slo: Slo) -> dict[str, Any]:
    """Return the numbers for programs: seconds of simulated time, tokens, requests."""
    served, experiment = result.served, result.experiment
    firsts, wholes = served.times_to_first_token, served.e2e_latencies
    return {
        "experiment": {**asdict(experiment), "engine": asdict(experiment.resolved_engine())},
        "cost_model": asdict(experiment.cost),
        "slo": asdict(slo),
        "time_to_first_token": _spread(firsts),
        "inter_token_latency": {
            "mean": weighted_mean(served.gaps),
            **_named(weighted_percentiles(served.gaps, PERCENTS)),
        },
        "e2e_latency": _spread(wholes),
        "simulated_seconds": served.seconds,
        "output_tokens_per_second": served.output_tokens_per_second,
        "goodput": served.goodput(slo),
        "share_good": served.share_good(slo),
        "num_preemptions": served.num_preemptions,
        "hit_rate": served.hit_rate,
        "most_running": served.most_running,
        "num_steps": served.num_steps,
        "num_computed_tokens": served.num_computed_tokens,
        "wall_seconds": result.wall_seconds,
    }


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"mean": sum(seconds) / len(seconds), **_named(percentiles(seconds, PERCENTS))}


def _named(values: list[float]) -> dict[str, float]:
    return {f"p{percent}": value for percent, value in zip(PERCENTS, values, strict=True)}
