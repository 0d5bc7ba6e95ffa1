"""docs/benchmarks.md from the records of the runs: `page.md.jinja` with the figures filled in."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, StrictUndefined

from bench import gpu
from bench.cli.features import settings_text
from bench.plan import OURS
from bench.slower import STREAM_RATE
from course.simulator.measured_engine import FITTED_ON
from course.terminal.charts import duration, measured_bar, shares
from tools.benchmarks import aims

TEMPLATE = Path(__file__).with_name("page.md.jinja")
TITLES = {"random-150m": "Random weights", "embedded": "The embedded model"}
Record = Mapping[str, Any]


def page(records: Mapping[str, Record], on_a_gpu: Path | None = None) -> str:
    """Return the whole page; `on_a_gpu` has the records of `bench gpu`. What was not run is listed as not measured."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"f": format, "duration": duration, "median": median, "us": microseconds, "apart": apart}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        records=records,
        named=lambda start: [record for name, record in records.items() if name.startswith(start)],
        machines=dict.fromkeys(describe(record["machine"]) for record in records.values()),
        ours=OURS,
        titles=TITLES,
        fitted_on=FITTED_ON,
        aims=aims,
        gpu_rows=[] if on_a_gpu is None else list(gpu.rows(on_a_gpu)),
        stream_rate=STREAM_RATE,
        bar=bar,
        shares=shares,
        settings_text=settings_text,
    )


def apart(measured: Mapping[str, Record]) -> float:
    """Return how many times as long the slowest round of a setting took as its fastest, at most in a case."""
    return max(float(max(one["all_seconds"]) / min(one["all_seconds"])) for one in measured.values())


def microseconds(cost: float) -> str:
    return f"{cost:.2f} µs" if cost < 10 else f"{cost:.1f} µs"


def bar(name: str, rate: float, scale: float) -> str:
    """Return a backend's output tokens per second as a bar of text."""
    return measured_bar(name, rate, scale, f"{rate:,.0f}", ours=name == OURS).plain


def describe(found: Record) -> str:
    """Return a description of the machine."""
    return (
        f"{found['cores']} cores ({found['architecture']}, {found['vectors']}), {found['memory_gib']} GiB of memory, "
        f"{found['system']}; Python {found['python']}, torch {found['torch']}, transformers {found['transformers']}."
    )
