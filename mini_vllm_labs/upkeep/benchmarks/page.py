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
    "The variants in a table took turns in each round of a single run. A ratio compares a variant with the baseline "
    "(the variant that has no ratio) in the same round. The range from the lowest to the highest round shows "
    "how much other work on the machine affects a figure."
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
    """Return a side's ratio to the base, and the range of ratios if there are several rounds."""
    low, high = min(case.ratios(name)), max(case.ratios(name))
    return f"{case.ratio(name):.2f}" + (f" ({low:.2f} to {high:.2f})" if low != high else "")


def no_aims(record: Record) -> list[list[str]]:
    return []


DESCRIBED: list[tuple[str, str, str, Callable[[Record], list[list[str]]]]] = [
    (
        "busy",
        "busy",
        "Decoding next to processes that compute without a pause. The default adapts the number of threads and how "
        "they wait. The fixed choices are one thread, all threads spinning while they wait, and all threads sleeping "
        "at once.",
        aims.beside_busy_processes,
    ),
    *(
        (name, name, f'The "With it" variant {with_it}. The "Without" variant {without}.', no_aims)
        for name, with_it, without in (
            ("prefix", "uses the defaults", "sets `enable_prefix_caching=False`"),
            (
                "chunked",
                "computes at most 128 tokens per step",
                "sets `enable_chunked_prefill=False` and computes at most 2,048 tokens per step",
            ),
            ("preemption", "has phases 2 and 3", "lacks both phases, and reserves memory for each request's limit"),
        )
    ),
    (
        "speculative",
        "speculative",
        "The requests are chats with greedy decoding. transformers drafts for only one request at a time, with the "
        "same draft model.",
        aims.drafts,
    ),
    (
        "async",
        "async",
        "Between two forward passes, the engine plans the next step, applies results and writes text. On a CPU, "
        "this work runs on the cores that compute the model, and Python runs only one thread at a time. Overlapping "
        "this work with a forward pass therefore slows that pass down.",
        aims.between_passes,
    ),
    (
        "sampling",
        "sampling",
        "The two cuts are `top_k` 50, followed by `top_p` 0.9. For masks, the table gives the share of the time that "
        "is spent on grammars.",
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
        "The figures are CPU time per request, for our scheduler and vLLM's unmodified scheduler in the same process. "
        "Decode and admission cover `schedule()` and `update_from_output()`. Requests that share 512 cached tokens are "
        "all admitted in one step. An arrival creates a request from its tokens, hashes it and queues it. vLLM's "
        "`schedule()` also writes the message to its workers, whereas our runner gets the requests themselves.",
        aims.scheduling,
    ),
]


def describe(found: Record) -> str:
    """Return a description of the machine."""
    return (
        f"{found['cores']} cores ({found['architecture']}, {found['vectors']}), {found['memory_gib']} GiB of memory, "
        f"{found['system']}; Python {found['python']}, torch {found['torch']}, transformers {found['transformers']}."
    )
