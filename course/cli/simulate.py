"""`mini-vllm simulate`: a hundred thousand requests on a GPU that is not here."""

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from course.cli.simulation_report import conditions, latency_table, legend, sweep_table, totals
from course.simulator.calibration import read_calibration
from course.simulator.experiment import ENGINE, Experiment, parse_sweep
from course.simulator.gpus import GPUS
from course.simulator.model_shapes import MODEL_SHAPES
from course.simulator.policies import POLICIES
from course.simulator.served import Slo
from course.simulator.summary import Summary, summarize
from course.simulator.workloads import WORKLOADS
from course.terminal.console import friendly, is_live, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import (
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
from course.terminal.step_view import FAINT
from mini_vllm.seams.lineup import Lineup


@dataclass(frozen=True)
class Result:
    """One simulation that has been run. `wall_seconds` is what it took here."""

    experiment: Experiment
    summary: Summary
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
    results = run_all(experiments, team, slo, console)
    if as_json:
        records = [as_record(result, slo) for result in results]
        typer.echo(json.dumps({"sweep": setting, "values": values, "runs": records} if setting else records[0]))
    elif setting:
        console.print(sweep_table(setting, values, [result.summary for result in results]))
        console.print(legend(slo), style=FAINT)
    else:
        console.print(latency_table(results[0].summary))
        console.print(totals(results[0].summary, results[0].wall_seconds))
        console.print(legend(slo), style=FAINT)


def run_all(experiments: list[Experiment], lineup: Lineup, slo: Slo, console: Console) -> list[Result]:
    """Run the experiments one after the other, with a progress bar on a terminal."""
    counted = TextColumn("{task.completed:,.0f} of {task.total:,.0f} requests")
    columns = (TextColumn("Simulating"), BarColumn(), counted, TimeElapsedColumn(), TimeRemainingColumn())
    results, num_done = [], 0
    with Progress(*columns, console=console, disable=not is_live(console), transient=True) as bar:
        task = bar.add_task("", total=sum(experiment.num_requests for experiment in experiments))
        for experiment in experiments:
            report = partial(_show_progress, bar, task, num_done)
            results.append(run_one(experiment, lineup, slo, report))
            num_done += experiment.num_requests
    return results


def _show_progress(bar: Progress, task: TaskID, num_before: int, num_finished: int) -> None:
    bar.update(task, completed=num_before + num_finished)


def run_one(experiment: Experiment, lineup: Lineup, slo: Slo, on_progress: Callable[[int], None]) -> Result:
    """Run one experiment and take its time."""
    started = time.perf_counter()
    gc.freeze()
    try:
        summary = summarize(experiment.run(lineup, on_progress), slo)
    finally:
        gc.unfreeze()
    return Result(experiment, summary, time.perf_counter() - started)


def as_record(result: Result, slo: Slo) -> dict[str, object]:
    """Return the numbers for programs: seconds of simulated time, tokens, requests."""
    experiment = result.experiment
    return {
        "experiment": {**asdict(experiment), "engine": asdict(experiment.resolved_engine())},
        "cost_model": asdict(experiment.cost),
        "slo": asdict(slo),
        **asdict(result.summary),
        "wall_seconds": result.wall_seconds,
    }
