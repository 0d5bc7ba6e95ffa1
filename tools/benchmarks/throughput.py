"""The throughput part of the page: aims, figures by workload, and where mini-vLLM's time goes."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.plan import OURS, SHARED_PREFIX, STREAM
from course.terminal.charts import duration, measured_bar, shares
from tools.benchmarks.aims import aims
from tools.benchmarks.table import Record, table

TITLES = {"random-150m": "Random weights", "embedded": "The embedded model"}
PLACES = ("forward_pass", "batch_and_sampling", "scheduling_and_outputs")
HEAD = "## `mini-vllm bench throughput`\n\n"
GUIDE = """All backends of a table served the same requests in one run, in turns, with the same number of threads and
the same room for K and V, each in its own process. A backend that has a prefix cache uses it.

- mini-vllm is ours, with the reference in all phases.
- transformers-continuous is transformers' continuous batching.
- transformers-static is `generate` on padded batches of 8.
- transformers-one-by-one is `generate` request by request; it serves only the first 8.
- openvino is the continuous batching of OpenVINO GenAI.

"Ours / theirs" are output tokens per second: over 1, ours is faster. The time to the first token counts from a
request's arrival; "between tokens" is the time between successive tokens of a request; "per token" is a request's whole
time, from its arrival to its end, divided by its tokens. Each is given as median, 90th and 99th percentile. Peak
memory is the maximum since the start of the process, so it never falls from one workload to the next. "Same
tokens" counts requests that were answered exactly as by ours, in all rounds.

"""


def throughput(records: Sequence[Record]) -> str:
    """Return the whole part, model by model."""
    return HEAD + (GUIDE + "".join(map(model, records)) if records else "Not measured.\n\n")


def model(record: Record) -> str:
    """Return a model's section."""
    plan, workloads = record["plan"], record["workloads"]
    title = f"{TITLES.get(record['model'], record['model'])}, {record['num_parameters'] / 1e6:.1f} million parameters"
    parts = [
        f"### {title}, {plan['dtype']}\n\n",
        f"Threads of each: {plan['num_threads']}. Token budget of a step: {record['max_num_batched_tokens']:,}. Room "
        f"for K and V: {record['kv_cache_tokens']:,} tokens, enough for all requests at once with nothing shared.\n\n",
        *(f"Not measured, {name}: {reason}\n\n" for name, reason in record["missing"].items()),
        aims(record),
    ]
    for workload, entries in workloads.items():
        parts.append(f"#### {workload.capitalize()}\n\n{served(workload, entries[OURS], plan['sizes'])}\n\n")
        parts += [bars(entries), figures(entries)]
    return "".join([*parts, where(record["explained"], record["seconds_by_operator"])])


def served(workload: str, ours: Record, sizes: Record) -> str:
    """Return a description of the requests served."""
    num_rounds = len(ours["all_seconds"])
    rounds = "one round" if num_rounds == 1 else f"the fastest of {num_rounds} rounds"
    if workload == SHARED_PREFIX:
        return (
            f"{ours['num_requests']} questions of {ends(sizes['question'])} tokens after a shared document of "
            f"{sizes['shared_document']:,}, {sizes['answer']} tokens out; all present at the start; {rounds}."
        )
    when = "arriving one by one" if workload == STREAM else "all present at the start"
    return (
        f"{ours['num_requests']} requests: every eighth a document of {ends(sizes['document_prompt'])} tokens, "
        f"{ends(sizes['document_output'])} out; the others chats of {ends(sizes['chat_prompt'])}, "
        f"{ends(sizes['chat_output'])} out; {when}; {rounds}."
    )


def ends(lengths: Sequence[int]) -> str:
    """Return a range of lengths as text."""
    low, high = lengths
    return f"{low:,} to {high:,}"


def bars(entries: Record) -> str:
    """Return the output tokens per second of all backends as a text chart."""
    rates = {name: entry["output_tokens_per_second"] for name, entry in entries.items()}
    scale = max(rates.values())
    lines = [measured_bar(name, rate, scale, f"{rate:,.0f}", ours=name == OURS).plain for name, rate in rates.items()]
    return "\n".join(["```text", "output tokens per second", *lines, "```"]) + "\n\n"


def figures(entries: Record) -> str:
    """Return the figures of all backends as a table."""
    waits = [f"{wait}, p50 / p90 / p99" for wait in ("first token", "between tokens", "per token")]
    head = ["", "output tokens/s", "ours / theirs", *waits, "peak memory", "same tokens"]
    return table(head, [backend_row(name, entry) for name, entry in entries.items()])


def backend_row(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return a backend's line of the table."""
    same, both = entry["equal_requests"]
    return [
        f"{name} {entry['facts'].get('version', '')}".rstrip(),
        f"{entry['output_tokens_per_second']:,.0f}",
        "" if name == OURS else f"{entry['ours_is_faster_by']:.2f}",
        " / ".join(map(duration, entry["time_to_first_token"].values())),
        " / ".join(map(duration, entry["inter_token_latency"].values())),
        " / ".join(map(duration, entry["normalized_latency"].values())),
        f"{entry['peak_rss_bytes'] / 2**20:,.0f} MiB",
        "" if name == OURS else f"{same} of {both}",
    ]


def where(explained: Record, seconds_by_operator: Record) -> str:
    """Return where mini-vLLM's time goes in each workload, and its share of the roofline."""
    head = ["our time", "forward pass", "batch and sampling", "scheduling and outputs", "share of the roofline"]
    rows = []
    for workload, found in explained.items():
        seconds, overhead = found["seconds"], found["overhead"]
        places = [f"{seconds[name] / seconds['all']:.1%}" for name in PLACES]
        large = f"{overhead['share']:.1%} (from {overhead['at_least_requests']} requests)"
        rows.append([workload, *places, f"{found['share_of_roofline']:.0%}", large])
    rates = next(iter(explained.values()))
    return (
        "#### Where our time goes\n\n"
        + table([*head, "not the forward pass in large steps"], rows)
        + "The roofline is the minimum time in which this machine could have run our steps, each of them either "
        f"reading weights, K and V at {rates['read_bytes_per_second'] / 1e9:.1f} GB/s or multiplying at "
        f"{rates['flops_per_second'] / 1e9:,.0f} GFLOP/s, whichever takes longer; both rates were measured in the same "
        "run. The share is that time divided by ours.\n\n"
        f"One more round all at once, with every operator timed: {shares(seconds_by_operator)}.\n\n"
    )
