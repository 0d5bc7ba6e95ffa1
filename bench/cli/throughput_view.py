"""What `mini-vllm bench throughput` prints: bars, latencies, and where mini-vLLM's time goes."""

from typing import Any

from rich.console import Console

from bench.plan import OURS
from course.terminal.charts import duration, measured_bar, shares
from course.terminal.step_view import FAINT, STRONG


def show(console: Console, record: dict[str, Any]) -> None:
    """Print a chart per workload, the missing backends, and where mini-vLLM's time goes."""
    for workload, entries in record["workloads"].items():
        console.print(f"\n{workload}: output tokens per second", style=STRONG)
        scale = max(entry["output_tokens_per_second"] for entry in entries.values())
        for name, entry in entries.items():
            console.print(
                measured_bar(name, entry["output_tokens_per_second"], scale, figures(entry), ours=name == OURS)
            )
        console.print(f"{'':23} first token p50, p99; between tokens p50, p99; peak", style=FAINT)
        for name, entry in entries.items():
            console.print(f"{name:>23} {latencies(entry)}", markup=False)
        console.print(explanation(record["explained"][workload]), style=FAINT, markup=False)
    console.print(f"\nA round with every operator timed: {shares(record['seconds_by_operator'])}.", style=FAINT)
    for name, reason in record["missing"].items():
        console.print(f"\n{name} is missing: {reason}", style=FAINT, markup=False, soft_wrap=True)
    console.print(
        "\nx: our tokens per second over theirs. equal: requests with the same tokens as ours, in all rounds. "
        "One-by-one serves only the first requests. In a stream no backend can be faster than the arrivals: compare "
        "the latencies.",
        style=FAINT,
    )


def figures(entry: dict[str, Any]) -> str:
    """Return the numbers beside a bar."""
    same, both = entry["equal_requests"]
    faster = f"x{entry['ours_is_faster_by']:.2f}"
    return f"{entry['output_tokens_per_second']:6.0f} {faster:>7}  {same}/{both} equal"


def latencies(entry: dict[str, Any]) -> str:
    """Return the latencies and the memory of a backend."""
    first, between = entry["time_to_first_token"], entry["inter_token_latency"]
    gaps = "none" if between is None else f"{duration(between['p50']):>7} {duration(between['p99']):>7}"
    return (
        f"{duration(first['p50']):>7} {duration(first['p99']):>7}   {gaps}   {entry['peak_rss_bytes'] / 2**20:,.0f} MiB"
    )


def explanation(explained: dict[str, Any]) -> str:
    """Return where mini-vLLM's time goes, in one or two sentences."""
    seconds, overhead = explained["seconds"], explained["overhead"]
    places = ", ".join(
        f"{seconds[name] / seconds['all']:.1%} {words}"
        for name, words in (
            ("forward_pass", "forward pass"),
            ("batch_and_sampling", "batch and sampling"),
            ("scheduling_and_outputs", "scheduling and outputs"),
        )
    )
    return (
        f"Our time: {places}. {explained['share_of_roofline']:.0%} of the roofline "
        f"({explained['read_bytes_per_second'] / 1e9:.1f} GB/s, {explained['flops_per_second'] / 1e9:.0f} GFLOP/s). "
        f"Steps of {overhead['at_least_requests']} requests and more: {overhead['share']:.1%} is not the forward pass."
    )
