"""Formats a round's figures as vLLM's `bench serve` prints them."""

from mini_vllm_labs.bench.serve.report import RoundReport

WIDTH = 50
LATE_MS = 10.0  # if the client is later than this, the run measures the client rather than the server
TIMES = {
    "Time to First Token": "ttft",
    "Time per Output Token (excl. 1st token)": "tpot",
    "Inter-token Latency": "itl",
    "End-to-end Latency": "e2el",
}


def as_vllm_prints(name: str, report: RoundReport) -> str:
    """Return the figures in vLLM's format, then the client's delay, its CPU use, and the failures."""
    counts: dict[str, float | int | None] = {
        "Successful requests:": report.completed,
        "Failed requests:": sum(report.failed.values()),
        "Benchmark duration (s):": report.duration,
        "Total input tokens:": report.total_input_tokens,
        "Total generated tokens:": report.total_output_tokens,
        "Request throughput (req/s):": report.request_throughput,
        "Request goodput (req/s):": report.request_goodput,
        "Output token throughput (tok/s):": report.output_throughput,
        "Total token throughput (tok/s):": report.total_token_throughput,
        "Peak concurrent requests:": report.peak_concurrent,
    }
    lines = [f"{f' {name} ':=^{WIDTH}}", *(line(label, value) for label, value in counts.items() if value is not None)]
    for title, short in TIMES.items():
        spread = getattr(report, short)
        names = {"Mean": spread.mean, "Median": spread.p50, "P90": spread.p90, "P99": spread.p99}
        lines.append(f"{title:-^{WIDTH}}")
        lines += [line(f"{name} {short.upper()} (ms):", 1e3 * seconds) for name, seconds in names.items()]
    failed = [f"failed: {count} x {reason}" for reason, count in report.failed.items()]
    return "\n".join([*lines, "=" * WIDTH, client_line(report), *failed])


def line(label: str, value: float) -> str:
    """Return a label with its number."""
    return f"{label:<40} {value:<10}" if isinstance(value, int) else f"{label:<40} {value:<10.2f}"


def client_line(report: RoundReport) -> str:
    """Return how late the client sent its requests, and how much CPU time it used."""
    own = f"Client: sent {1e3 * report.lag.p50:.1f} ms late (median; p99 {1e3 * report.lag.p99:.1f} ms)"
    is_late = 1e3 * report.lag.p99 >= LATE_MS
    verdict = ": it fell behind, the loop was not quite open" if is_late else ""
    return f"{own}{verdict}; {report.cpu_share:.0%} of one core."
