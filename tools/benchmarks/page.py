"""docs/benchmarks.md from the records of the runs."""

from collections.abc import Mapping
from typing import Any

from mini_vllm.cli.charts import duration

Record = Mapping[str, Any]
TITLES = {
    "random-150m": "A model of about 150 million random weights",
    "embedded": "The embedded model",
}
AIMS = {
    ("random-150m", "transformers-continuous"): 3.0,
    ("random-150m", "transformers-static"): 4.0,
    ("random-150m", "openvino"): 0.9,
    ("embedded", "transformers-continuous"): 4.0,
    ("embedded", "transformers-static"): 3.0,
    ("embedded", "openvino"): 0.5,
}
MOST_OVERHEAD = 0.05
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


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


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


def throughput(record: Record) -> str:
    """Return a model's section: what was served, a table for each workload, the aims, where the time goes."""
    plan = record["plan"]
    parts = [
        f"## {TITLES.get(record['model'], record['model'])}, {plan['dtype']}\n\n",
        f"{plan['num_requests']} requests, every eighth a document, the others short chats; {plan['num_threads']} "
        f"threads; the quickest of {plan['num_rounds']} rounds.\n\n",
    ]
    for workload, entries in record["workloads"].items():
        parts.append(f"### {workload.capitalize()}\n\n")
        rows = [contender_row(name, entry) for name, entry in entries.items()]
        head = ["", "output tokens/s", "ours is faster by", "first token p50, p99", "between tokens p50, p99"]
        parts.append(table([*head, "peak memory", "same tokens"], rows))
        parts.append(where(record["explained"][workload]))
    parts.append(aims(record))
    parts += [f"Not measured, {name}: {reason}\n\n" for name, reason in record["missing"].items()]
    return "".join(parts)


def contender_row(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return a contender's line of the table."""
    same, both = entry["equal_requests"]
    first, between = entry["time_to_first_token"], entry["inter_token_latency"]
    return [
        name,
        f"{entry['output_tokens_per_second']:,.0f}",
        f"{entry['ours_is_faster_by']:.2f}",
        f"{duration(first['p50'])}, {duration(first['p99'])}",
        f"{duration(between['p50'])}, {duration(between['p99'])}",
        f"{entry['peak_rss_bytes'] / 2**20:,.0f} MiB",
        f"{same} of {both}",
    ]


def where(explained: Mapping[str, Any]) -> str:
    """Return where our time goes, and how near the roofline it is."""
    seconds, overhead = explained["seconds"], explained["overhead"]
    names = ("forward_pass", "batch_and_sampling", "scheduling_and_outputs")
    forward, batch, rest = (seconds[name] / seconds["all"] for name in names)
    return (
        f"Our time: {forward:.1%} forward pass, {batch:.1%} batch and sampling, {rest:.1%} scheduling and outputs. It "
        f"is {explained['share_of_roofline']:.0%} of the roofline ({explained['read_bytes_per_second'] / 1e9:.1f} GB/s "
        f"read, {explained['flops_per_second'] / 1e9:,.0f} GFLOP/s multiplied, both measured). In steps of at least "
        f"{overhead['at_least_requests']} requests, {overhead['share']:.1%} is not the forward pass.\n\n"
    )


def aims(record: Record) -> str:
    """Return which aims were met in float32, all at once, and by how much others were missed."""
    if record["plan"]["dtype"] != "float32":
        return ""
    entries = record["workloads"]["all at once"]
    rows = []
    for (model, peer), aim in AIMS.items():
        if model != record["model"]:
            continue
        found = entries[peer]["ours_is_faster_by"] if peer in entries else None
        rows.append([f"at least {aim:g} times {peer}", "not measured" if found is None else verdict(found, aim)])
    if record["model"] == "random-150m":
        share = record["explained"]["all at once"]["overhead"]["share"]
        words = "met" if share < MOST_OVERHEAD else "missed"
        rows.append([f"under {MOST_OVERHEAD:.0%} of a large step is not the forward pass", f"{share:.1%}, {words}"])
    return table(["aim", "found"], rows) if rows else ""


def verdict(found: float, aim: float) -> str:
    """Return a ratio and whether it reaches the aim."""
    return f"{found:.2f}, " + ("met" if found >= aim else f"missed by {1 - found / aim:.0%}")


def feature(record: Record | None, name: str) -> str:
    """Return what a feature buys."""
    if record is None:
        return f"## `mini-vllm bench {name}`\n\nNot measured.\n\n"
    same, both = record["equal_requests"]
    rows = [[figure, f"{ratio:.2f}"] for figure, ratio in record["ratios"].items()]
    settings = ", without it ".join(str(record[side]["settings"] or "the defaults") for side in ("with", "without"))
    return (
        f"## `mini-vllm bench {name}`\n\n{record['workload'].capitalize()}. With it {settings}. Same tokens in {same} "
        f"of {both} requests.\n\n" + table(["with it, divided by without", "ratio"], rows)
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
