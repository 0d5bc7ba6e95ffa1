"""Builds docs/benchmarks.md from the runs' records by filling the figures into `page.md.jinja`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, StrictUndefined

from mini_vllm_labs.bench import gpu
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.throughput import STREAM_RATE
from mini_vllm_labs.pictures.terminal.charts import duration, shares
from mini_vllm_labs.simulation.measured_engine import FITTED_ON
from mini_vllm_labs.upkeep.benchmarks import aims

TEMPLATE = Path(__file__).with_name("page.md.jinja")
TITLES = {"random-150m": "Random weights", "embedded": "The embedded model"}
Record = Mapping[str, Any]
IN_TURNS = (
    "Where a table has sides, they took turns in the rounds of one run. A ratio compares a side with the one that has "
    "no ratio, in the same round. The lowest and the highest round show what other work on the machine does to a "
    "figure."
)


def page(records: Mapping[str, Record], on_a_gpu: Path | None = None) -> str:
    """Return the whole page; `on_a_gpu` contains the records of `bench gpu`.

    Benchmarks that did not run are listed as not measured.
    """
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"f": format, "duration": duration, "median": median}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        records=records,
        named=lambda start: [record for name, record in records.items() if name.startswith(start)],
        machines=dict.fromkeys(describe(record["machine"]) for record in records.values()),
        titles=TITLES,
        fitted_on=FITTED_ON,
        aims=aims,
        gpu_rows=[] if on_a_gpu is None else list(gpu.rows(on_a_gpu)),
        stream_rate=STREAM_RATE,
        shares=shares,
        cases_of=aims.cases_of,
        ratio=ratio,
        in_turns=IN_TURNS,
        described=DESCRIBED,
        scheduling=SCHEDULING,
    )


def ratio(case: Case, name: str) -> str:
    """Return a side's ratio to the base, and the range over its rounds if there are several."""
    low, high = min(case.ratios(name)), max(case.ratios(name))
    return f"{case.ratio(name):.2f}" + (f" ({low:.2f} to {high:.2f})" if low != high else "")


def no_aims(record: Record) -> list[list[str]]:
    return []


DESCRIBED: list[tuple[str, str, str, Callable[[Record], list[list[str]]]]] = [
    (
        "busy",
        "busy",
        "Decoding beside processes that compute without a pause. The default adapts its number of threads and their "
        "waits; the fixed choices are one thread, all that spin while they wait, and all that sleep at once.",
        aims.beside_busy_processes,
    ),
    *(
        (name, name, f"With it: {with_it}; without: {without}.", no_aims)
        for name, with_it, without in (
            ("prefix", "the defaults", "`enable_prefix_caching=False`"),
            ("chunked", "128 tokens a step", "2,048 tokens a step, `enable_chunked_prefill=False`"),
            ("preemption", "phases 2 and 3", "memory for each request's limit, phases 2 and 3 absent"),
        )
    ),
    (
        "speculative",
        "speculative",
        "Chats, greedy. transformers drafts for one request at a time, with the same draft model.",
        aims.drafts,
    ),
    (
        "async",
        "async",
        "Between two forward passes: planning, applying, text. On a CPU these run on the cores that compute, and "
        "Python runs one thread at a time, so what is hidden comes back as a slower pass.",
        aims.between_passes,
    ),
    (
        "sampling",
        "sampling",
        "Two cuts: `top_k` 50, then `top_p` 0.9. Masks: the share of the time that goes to grammars.",
        aims.sampling,
    ),
]
SCHEDULING = [
    (
        "scheduler",
        "scheduler",
        "CPU time of `schedule()` and `update_from_output()` per request.",
        no_aims,
    ),
    (
        "beside-vllm",
        "scheduler --peer vllm",
        "Our scheduler and vLLM's own, unmodified, in one process: CPU time per request. Decode and admission are "
        "`schedule()` and `update_from_output()`; requests are admitted in one step and share 512 cached tokens. "
        "Arrival: the request is made of its tokens, hashed and queued. vLLM's `schedule()` also writes the message to "
        "its workers; our runner gets the requests themselves.",
        aims.scheduling,
    ),
]


def describe(found: Record) -> str:
    """Return a description of the machine."""
    return (
        f"{found['cores']} cores ({found['architecture']}, {found['vectors']}), {found['memory_gib']} GiB of memory, "
        f"{found['system']}; Python {found['python']}, torch {found['torch']}, transformers {found['transformers']}."
    )
