"""What `mini-vllm simulate` prints."""

from dataclasses import astuple

from rich import box
from rich.table import Table

from course.palette import OKABE_ITO
from course.simulator.calibration import NEVER
from course.simulator.experiment import Experiment
from course.simulator.served import Slo
from course.simulator.summary import PERCENTS, Summary
from course.terminal.charts import facts_table

BAR_LENGTH = 8
SWEPT = ("TTFT\np50", "TTFT\np99", "ITL\np50", "ITL\np99", "output\ntok/s", "pre-\nempted", "hits")


def speed(rate: float, unit: str) -> str:
    """Return a rate per second with a suitable prefix, or "no limit seen" if the fit found none."""
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
    """Return the figures other than latencies."""
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
    """Return one row per value. It fits 80 columns."""
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
