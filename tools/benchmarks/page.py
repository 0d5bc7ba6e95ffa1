"""docs/benchmarks.md from the records of the runs."""

from collections.abc import Mapping
from typing import Any

from mini_vllm.cli.charts import duration
from tools.benchmarks.table import Record, table
from tools.benchmarks.throughput import throughput

HEAD = """# Benchmarks

Made by `python -m tools.benchmarks` from the records in `docs/benchmarks/`; do not edit. Every ratio is of one
run: all contenders served the same requests in turns on the same machine, with the same number of threads and
the same room for K and V, each in a process of its own.

"""


def page(records: Mapping[str, Record]) -> str:
    """Return the whole page. What was not run is said to be not measured."""
    parts = [HEAD, machine(records)]
    for name, record in records.items():
        if name.startswith("throughput"):
            parts.append(throughput(record))
    if not any(name.startswith("throughput") for name in records):
        parts.append("## Throughput\n\nNot measured.\n\n")
    parts += [feature(records.get(name), name) for name in ("prefix", "chunked", "preemption")]
    parts += [scheduler(records.get("scheduler")), loop(records.get("loop"))]
    parts.append("## GPUs\n\nNot measured.\n")
    return "".join(parts)


def machine(records: Mapping[str, Record]) -> str:
    """Return the machine in words, and a warning where the runs were only tries."""
    texts = []
    for text in dict.fromkeys(_machine_text(record["machine"]) for record in records.values()):
        texts.append(f"Machine: {text}\n\n")
    if any(record["quick"] for record in records.values()):
        texts.append("**Some of these are quick tries: they show that the command works, and measure nothing.**\n\n")
    return "".join(texts)


def _machine_text(found: Mapping[str, Any]) -> str:
    return (
        f"{found['cores']} cores ({found['architecture']}, {found['vectors']}), {found['memory_gib']} GiB of memory, "
        f"{found['system']}; Python {found['python']}, torch {found['torch']}, transformers {found['transformers']}."
    )


def feature(record: Record | None, name: str) -> str:
    """Return what a feature buys."""
    if record is None:
        return f"## `mini-vllm bench {name}`\n\nNot measured.\n\n"
    same, both = record["equal_requests"]
    rows = [[figure, f"{ratio:.2f}"] for figure, ratio in record["ratios"].items()]
    settings = ", without it ".join(str(record[side]["settings"] or "the defaults") for side in ("with", "without"))
    return (
        f"## `mini-vllm bench {name}`\n\n{record['workload'].capitalize()}. With it {settings}. Same tokens in {same} "
        f"of {both} requests. The embedded model; threads: {record['num_threads']}.\n\n"
        + table(["with it, divided by without", "ratio"], rows)
    )


def scheduler(record: Record | None) -> str:
    """Return the cost of decisions."""
    head = "## `mini-vllm bench scheduler`\n\n"
    if record is None:
        return head + "Not measured.\n\n"
    costs = record["per_scheduled_request"]
    rows = [[f"{count} running", f"{cost['median']:.2f}"] for count, cost in costs.items()]
    if (queue := record["long_queue"]) is not None:
        rows.append([f"64 running, {queue['num_queued']:,} waiting", f"{queue['long']['median']:.2f}"])
        rows.append([f"the same, divided by nobody waiting, {queue['num_blocks']:,} blocks", f"{queue['ratio']:.2f}"])
    if (pools := record["pool_sizes"]) is not None:
        rows.append(["a million blocks, divided by ten thousand", f"{pools['ratio']:.2f}"])
    rows.append(
        ["an admission with 512 cached tokens", f"{sum(c['median'] for c in record['per_admission'].values()):.1f}"]
    )
    return head + table(["", "CPU microseconds per request"], rows)


def loop(record: Record | None) -> str:
    """Return how long a learner waits."""
    head = "## `mini-vllm bench loop`\n\n"
    if record is None:
        return head + "Not measured.\n\n"
    return head + table(
        ["from start to verdict", "wall-clock time"], [[w["name"], duration(w["seconds"])] for w in record["seconds"]]
    )
