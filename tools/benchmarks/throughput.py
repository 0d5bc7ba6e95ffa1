"""A model's section of the page: everybody's figures by workload, the aims, and where our time goes."""

from collections.abc import Mapping
from typing import Any

from mini_vllm.bench.plan import OURS, SHARED_PREFIX, STREAM
from mini_vllm.cli.charts import duration
from tools.benchmarks.aims import aims
from tools.benchmarks.table import Record, table

TITLES = {
    "random-150m": "A model of about 150 million random weights",
    "embedded": "The embedded model",
}


def throughput(record: Record) -> str:
    """Return a model's section: what was served, a table for each workload, the aims, where the time goes."""
    plan = record["plan"]
    parts = [
        f"## {TITLES.get(record['model'], record['model'])}, {plan['dtype']}\n\n",
        f"Threads of each: {plan['num_threads']}.\n\n",
    ]
    for workload, entries in record["workloads"].items():
        parts.append(f"### {workload.capitalize()}\n\n{served(workload, entries[OURS], plan['sizes'])}\n\n")
        rows = [contender_row(name, entry) for name, entry in entries.items()]
        head = ["", "output tokens/s", "ours is faster by", "first token p50, p99", "between tokens p50, p99"]
        parts.append(table([*head, "peak memory", "same tokens"], rows))
        parts.append(where(record["explained"][workload]))
    parts.append(aims(record))
    parts += [f"Not measured, {name}: {reason}\n\n" for name, reason in record["missing"].items()]
    return "".join(parts)


def served(workload: str, ours: Record, sizes: Record) -> str:
    """Return in words what everybody served."""
    num_rounds = len(ours["all_seconds"])
    rounds = "one round" if num_rounds == 1 else f"the quickest of {num_rounds} rounds"
    if workload == SHARED_PREFIX:
        low, high = sizes["question"]
        return (
            f"{ours['num_requests']} questions of {low} to {high} tokens behind the same document of "
            f"{sizes['shared_document']:,}, {sizes['answer']} tokens out; all there from the start; {rounds}."
        )
    when = "arriving one by one" if workload == STREAM else "all there from the start"
    return f"{ours['num_requests']} requests, every eighth a document, the others short chats; {when}; {rounds}."


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
