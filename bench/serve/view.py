"""How a round's figures are printed."""

from rich.console import Console

from bench.serve.report import Report
from course.simulator.summary import Spread
from course.terminal.step_view import FAINT, STRONG

WIDTH = 50
LATE_MS = 10.0
TIMES = {
    "Time to First Token": "ttft",
    "Time per Output Token (excl. 1st token)": "tpot",
    "Inter-token Latency": "itl",
    "End-to-end Latency": "e2el",
}


def show_report(console: Console, name: str, report: Report) -> None:
    """Print the figures as vLLM's `bench serve` does."""
    console.print(f"\n{f' {name} ':=^{WIDTH}}", style=STRONG, markup=False)
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
    for label, value in counts.items():
        if value is not None:
            console.print(line(label, value))
    for title, short in TIMES.items():
        console.print(f"{title:-^{WIDTH}}")
        show_spread(console, short.upper(), getattr(report, short))
    console.print("=" * WIDTH, style=STRONG)
    console.print(client_line(report), style=FAINT if is_on_time(report) else "bold red")
    for reason, count in report.failed.items():
        console.print(f"failed: {count} x {reason}", markup=False, soft_wrap=True)


def line(label: str, value: float) -> str:
    """Return a label with its number."""
    return f"{label:<40} {value:<10}" if isinstance(value, int) else f"{label:<40} {value:<10.2f}"


def show_spread(console: Console, short: str, values: Spread) -> None:
    """Print mean, median and the upper percentiles in milliseconds."""
    names = {"Mean": values.mean, "Median": values.p50, "P90": values.p90, "P99": values.p99}
    for name, seconds in names.items():
        console.print(line(f"{name} {short} (ms):", 1e3 * seconds))


def is_on_time(report: Report) -> bool:
    """Return whether the client sent nearly every request when it was planned."""
    return 1e3 * report.lag.p99 < LATE_MS


def client_line(report: Report) -> str:
    """Return how late the client sent, and its use of the processor."""
    own = f"Client: sent {1e3 * report.lag.p50:.1f} ms late (median; p99 {1e3 * report.lag.p99:.1f} ms)"
    verdict = "" if is_on_time(report) else ": it fell behind, the loop was not quite open"
    return f"{own}{verdict}; {report.cpu_share:.0%} of one core."
