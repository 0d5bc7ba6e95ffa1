"""What `mini-vllm arena` prints."""

import math
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.table import Table

from arena.contest import Estimate
from arena.figures import Figures

Read = Callable[[Figures], float]
# Heading, unit, whether more is better, and where it is read.
LATENCIES: list[tuple[str, str, bool, Read]] = [
    ("TTFT\np50", "s", False, lambda run: run.ttft.p50),
    ("TTFT\np99", "s", False, lambda run: run.ttft.p99),
    ("TPOT\np50", "ms", False, lambda run: 1e3 * run.tpot.p50),
    ("TPOT\np99", "ms", False, lambda run: 1e3 * run.tpot.p99),
    ("E2E\nmean", "s", False, lambda run: run.e2e.mean),
    ("E2E\np99", "s", False, lambda run: run.e2e.p99),
    ("longest\nwait", "s", False, lambda run: run.longest_wait),
]
WORK: list[tuple[str, str, bool, Read]] = [
    ("Jain's\nindex", "", True, lambda run: run.jain_index),
    ("max. service\ngap", "", False, lambda run: run.max_service_difference),
    ("QoE", "", True, lambda run: run.qoe),
    ("pre-\nempted", "", False, lambda run: run.num_preemptions),
    ("tokens\ntwice", "", False, lambda run: run.num_recomputed_tokens),
    ("hits", "%", True, lambda run: 100 * run.hit_rate),
    ("output\ntok/s", "", True, lambda run: run.tokens_per_second),
]


def estimate(runs: Sequence[Figures], read: Read) -> Estimate:
    """Return a figure over the seeds."""
    return Estimate.of([read(run) for run in runs])


def digits(value: float) -> str:
    """Return a number with three significant digits, whole from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(value: Estimate) -> str:
    """Return a mean, with the margin of its 95% interval where there is one."""
    return digits(value.mean) if math.isnan(value.margin) else f"{digits(value.mean)} ±{digits(value.margin)}"


def figures_table(results: Mapping[str, Sequence[Figures]], columns: Sequence[tuple[str, str, bool, Read]]) -> Table:
    """Return a row for each policy; the best of each column is bold."""
    table = plain_table("policy", *(f"{heading} {unit}".rstrip() for heading, unit, _, _ in columns))
    means = {name: [estimate(runs, read).mean for *_, read in columns] for name, runs in results.items()}
    for name, row in means.items():
        cells = []
        for number, value in enumerate(row):
            others = [each[number] for each in means.values()]
            best = max(others) if columns[number][2] else min(others)
            cells.append(f"[bold]{digits(value)}[/bold]" if value == best and len(set(others)) > 1 else digits(value))
        table.add_row(name, *cells)
    return table


def goodput_table(results: Mapping[str, Sequence[Figures]]) -> Table:
    """Return the goodput of each policy as a whole and by class: a share, requests and output tokens per second."""
    table = plain_table("policy", "class", "good %", "requests/s", "output tokens/s")
    for name, runs in results.items():
        for number, each in enumerate(["all", *runs[0].classes]):
            shares = [run.share_good if each == "all" else run.classes[each].share_good for run in runs]
            of_run = [list(run.classes.values()) if each == "all" else [run.classes[each]] for run in runs]
            requests = [sum(one.requests_per_second for one in chosen) for chosen in of_run]
            tokens = [sum(one.tokens_per_second for one in chosen) for chosen in of_run]
            figures = [Estimate.of(values) for values in ([100 * share for share in shares], requests, tokens)]
            table.add_row("" if number else name, each, *map(cell, figures), end_section=number == len(runs[0].classes))
    return table


def plain_table(first: str, *headings: str) -> Table:
    """Return an empty table whose figures stand on the right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)  # all policies in 80 columns
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "class" else "right")
    return table
