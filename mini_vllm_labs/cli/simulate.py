"""`mini-vllm simulate` runs ten thousand requests on a simulated GPU and prints the resulting figures."""

import json
from dataclasses import astuple, dataclass, replace
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from mini_vllm import EngineConfig, Lineup
from mini_vllm_labs.cli.simulation_runs import SimulationResult, as_record, run_all
from mini_vllm_labs.pictures.terminal.charts import facts_table
from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.engine_options import SchedulerOptions, engine_config
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.step_view import FAINT, STRONG
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.runs.palette import OKABE_ITO
from mini_vllm_labs.simulation.calibration import NEVER, read_calibration
from mini_vllm_labs.simulation.experiment import ENGINE, Experiment, parse_sweep
from mini_vllm_labs.simulation.gpus import GPUS
from mini_vllm_labs.simulation.model_shapes import MODEL_SHAPES
from mini_vllm_labs.simulation.relief import relieved, waits_sentence
from mini_vllm_labs.simulation.served import Slo
from mini_vllm_labs.simulation.summary import PERCENTS, Summary
from mini_vllm_labs.simulation.workloads import WORKLOADS

BAR_LENGTH = 8
SWEPT = ("TTFT\np50", "TTFT\np99", "ITL\np50", "ITL\np99", "output\ntok/s", "pre-\nempted", "hits")


@dataclass(frozen=True)
class ExperimentOptions:
    workload: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")] = "chat"
    gpu: Annotated[str, typer.Option(help=f"One of {', '.join(gpu.name for gpu in GPUS)}.")] = "H100"
    model: Annotated[str, typer.Option(help=f"One of {', '.join(s.name for s in MODEL_SHAPES)}.")] = "Llama-3.1-8B"
    num_gpus: Annotated[int, typer.Option(min=1, help="GPUs that share the model.")] = 1
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 10_000
    rate: Annotated[float | None, typer.Option(help="Requests per second. Default: about 70% of the capacity.")] = None
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = "fcfs"
    scale: Annotated[float, typer.Option(help="Factor for all lengths, for models with a short context.")] = 1.0
    calibration: Annotated[
        str | None, typer.Option(metavar="FILE", help="A cost model written by `mini-vllm calibrate`.")
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of the requests.")] = 0

    def experiment(self, engine: EngineConfig) -> Experiment:
        """Return the experiment, at the given rate or, by default, at the rate that the GPU can sustain."""
        given = vars(self).copy()
        num_requests, path = given.pop("requests"), given.pop("calibration")
        calibrated = None if path is None else read_calibration(path)
        return Experiment(num_requests=num_requests, engine=engine, calibrated=calibrated, **given).with_rate()


@friendly
@with_option_groups
def simulate(
    *,
    experiment: ExperimentOptions,
    slo_ttft: Annotated[float, typer.Option(help="SLO: seconds to the first token.")] = 1.0,
    slo_itl: Annotated[float, typer.Option(help="SLO: mean seconds between tokens.")] = 0.05,
    sweep: Annotated[
        str | None, typer.Option(metavar="SETTING=A,B,C", help="Run once for each value of a setting.")
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Show what requests waited for, and a second run with one setting changed.")
    ] = False,
    lineup: LineupText = None,
    as_json: AsJson = False,
    engine: SchedulerOptions,
) -> None:
    """Serve a named workload with the real scheduler in simulated time.

    Prints latencies, goodput and preemptions.

    A step's duration comes from a roofline of the GPU and the model: bytes over bandwidth or operations over arithmetic
    rate, whichever takes longer, plus a constant overhead.
    """
    base, slo = experiment.experiment(engine_config(ENGINE, engine)), Slo(slo_ttft, slo_itl)
    setting, values = parse_sweep(sweep) if sweep is not None else ("", [""])
    experiments = [base.with_setting(setting, value) if setting else base for value in values]
    if why and setting:
        raise ValueError("--why explains a single run: leave out --sweep")
    for each in experiments:
        each.require_legal()
    console = make_console(stderr=as_json)
    team = replace(lineup_to_run(lineup, console), runner="absent")
    if not as_json:
        console.print(whose_code(team), markup=False)
        console.print(conditions(base, setting), style=FAINT, markup=False)
    results = run_all(experiments, team, slo, explained=why)
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
        if why:
            show_waits(console, results[0], team, slo)


def show_waits(console: Console, result: SimulationResult, lineup: Lineup, slo: Slo) -> None:
    """Print why requests waited, and the effect of changing the setting that would help."""
    assert result.waited is not None
    console.print(f"\nWhat bound this load: {waits_sentence(result.waited)}", style=STRONG)
    if (change := relieved(result.experiment, result.waited)) is None:
        return
    what, experiment = change
    (moved,) = run_all([experiment], lineup, slo, explained=True)
    assert moved.waited is not None
    first, then = (1e3 * one.summary.time_to_first_token.p99 for one in (result, moved))
    goodput = f"goodput {result.summary.goodput:,.2f} to {moved.summary.goodput:,.2f} requests/s"
    console.print(f"With {what}: {waits_sentence(moved.waited)}")
    console.print(f"Time to first token p99 {first:,.1f} to {then:,.1f} ms, {goodput}.")


def speed(rate: float, unit: str) -> str:
    """Return a rate per second with a suitable prefix, or "no limit seen" if the fit found no limit."""
    if rate >= NEVER:
        return "no limit seen"
    prefix, factor = ("T", 1e12) if rate >= 1e12 else ("G", 1e9)
    return f"{rate / factor:,.3g} {prefix}{unit}"


def conditions(base: Experiment, setting: str) -> str:
    cost, config = base.cost, base.resolved_engine()
    if base.calibrated is None:
        where = f"{base.model} on {base.num_gpus} x {base.gpu}"
        where += " (80% of the bandwidth, 60% of the arithmetic: assumed, not measured)"
    else:
        where = f"{base.calibrated.model} as calibrated"
    return (
        f"{where}: {speed(cost.bandwidth, 'B/s')}, {speed(cost.flop_rate, 'FLOP/s')}, "
        f"{cost.seconds_per_step * 1e3:.3g} ms a step, {(config.num_gpu_blocks or 1) - 1:,} blocks of "
        f"{config.block_size}. {base.num_requests:,} requests of {base.workload!r} at {base.rate:g} a second"
        + (f", for each value of {setting}." if setting else ".")
    )


def latency_table(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("ms")
    for heading in ("mean", *(f"p{percent}" for percent in PERCENTS)):
        table.add_column(heading, justify="right")
    for title, spread in (
        ("time to first token", summary.time_to_first_token),
        ("inter-token latency", summary.inter_token_latency),
        ("whole request", summary.e2e_latency),
    ):
        table.add_row(title, *(f"{1e3 * seconds:,.1f}" for seconds in astuple(spread)))
    return table


def totals(summary: Summary, wall_seconds: float) -> Table:
    """Return all figures except the latencies."""
    throughput = f"{summary.output_tokens_per_second:,.0f} output tokens/s over {summary.simulated_seconds:,.0f} s"
    return facts_table(
        {
            "throughput": throughput,
            "goodput": f"{summary.goodput:,.2f} requests/s: {summary.share_good:.1%} met the SLO",
            "most at once": f"{summary.most_running} requests, {summary.peak_context_tokens:,} tokens of context",
            "preemptions": f"{summary.num_preemptions:,}",
            "prefix cache": f"{summary.hit_rate:.1%} of the tokens were hits",
            "steps": f"{summary.num_steps:,}, {summary.num_computed_tokens / summary.num_steps:,.1f} tokens each",
            "run time": f"{wall_seconds:,.1f} s on this machine",
        }
    )


def legend(slo: Slo) -> str:
    return (
        "\nAll times are simulated; TTFT (time to first token) and ITL (inter-token latency) in ms. SLO: first token "
        f"within {slo.time_to_first_token:g} s and a mean ITL of at most {slo.inter_token_latency * 1e3:g} ms. "
        f"Goodput counts the requests that met both."
    )


def sweep_table(setting: str, values: list[str], summaries: list[Summary]) -> Table:
    """Return one row per value. The table fits in 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title=setting, title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in SWEPT:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met\nthe SLO", no_wrap=True)
    for value, summary in zip(values, summaries, strict=True):
        first, between, share = summary.time_to_first_token, summary.inter_token_latency, summary.share_good
        table.add_row(
            value,
            *(f"{1e3 * seconds:,.1f}" for seconds in (first.p50, first.p99, between.p50, between.p99)),
            f"{summary.output_tokens_per_second:,.0f}",
            f"{summary.num_preemptions:,}",
            f"{summary.hit_rate:.0%}",
            f"[{OKABE_ITO[1][0]}]{'█' * round(BAR_LENGTH * share)}[/] {share:.0%}",
        )
    return table
