"""How a round's figures, and a comparison of servers, are printed."""

from statistics import median

from rich.console import Console

from mini_vllm_labs.bench.serve.comparison import ServerComparison, aims
from mini_vllm_labs.bench.serve.http_cost import NUM_STREAMS, HttpCost
from mini_vllm_labs.bench.serve.load import RateSearch
from mini_vllm_labs.bench.serve.report import RoundReport
from mini_vllm_labs.bench.serve.server_process import OURS
from mini_vllm_labs.pictures.terminal.charts import measured_bar
from mini_vllm_labs.pictures.terminal.step_view import FAINT, STRONG
from mini_vllm_labs.simulation.summary import Spread

WIDTH = 50
LATE_MS = 10.0  # later than this, the client is measured and not the server
TIMES = {
    "Time to First Token": "ttft",
    "Time per Output Token (excl. 1st token)": "tpot",
    "Inter-token Latency": "itl",
    "End-to-end Latency": "e2el",
}


def show_report(console: Console, name: str, report: RoundReport) -> None:
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


def is_on_time(report: RoundReport) -> bool:
    """Return whether the client sent nearly every request when it was planned."""
    return 1e3 * report.lag.p99 < LATE_MS


def client_line(report: RoundReport) -> str:
    """Return how late the client sent, and its use of the processor."""
    own = f"Client: sent {1e3 * report.lag.p50:.1f} ms late (median; p99 {1e3 * report.lag.p99:.1f} ms)"
    verdict = "" if is_on_time(report) else ": it fell behind, the loop was not quite open"
    return f"{own}{verdict}; {report.cpu_share:.0%} of one core."


def show_comparison(console: Console, comparison: ServerComparison) -> None:
    """Print every server's figures, the rates, the cost of HTTP, and the targets."""
    for name, measured in comparison.measured.items():
        show_report(console, name, measured.report)
    searches = {name: one.search for name, one in comparison.measured.items() if one.search is not None}
    if searches:
        show_searches(console, searches)
    if comparison.http_cost is not None:
        show_cost(console, comparison.http_cost)
    for name, reason in comparison.missing.items():
        console.print(f"\n{name} is missing: {reason}", style=FAINT, markup=False, soft_wrap=True)
    for aim in aims(comparison):
        verdict = "met" if aim.met else "missed"
        found = "not found" if aim.found is None else f"{aim.found:.3g}"
        console.print(f"\nAim: {aim.text}. Found: {found}: {verdict}.", style=STRONG, markup=False)


def show_searches(console: Console, searches: dict[str, RateSearch]) -> None:
    """Print each server's probes, and its highest rate as a bar."""
    bound = next(iter(searches.values())).bound
    console.print(f"\nThe highest request rate with p99 TTFT within {1e3 * bound:g} ms", style=STRONG)
    for name, search in searches.items():
        show_probes(console, name, search)
    scale = max((search.highest or 0.0 for search in searches.values()), default=0.0) or 1.0
    ours = searches[OURS].highest if OURS in searches else None
    for name, search in searches.items():
        console.print(measured_bar(name, search.highest or 0.0, scale, rate_figures(search, ours), ours=name == OURS))


def show_probes(console: Console, name: str, search: RateSearch) -> None:
    """Print every rate that was tried."""
    for probed in search.probed:
        failed = f", {probed.num_failed} failed" if probed.num_failed else ""
        verdict = "holds" if probed.holds else "does not hold"
        figures = (
            f"{probed.rate:8.2f} requests/s: p99 TTFT {1e3 * probed.p99_ttft:.0f} ms, {probed.left_over:.0%} left over"
            f"{failed}, {verdict}"
        )
        console.print(f"{name:>23} {figures}", style=FAINT, markup=False)


def rate_figures(search: RateSearch, ours: float | None) -> str:
    """Return the numbers beside a bar: the highest rate, the lowest that failed, and how far ours is ahead."""
    if search.highest is None:
        return f"not even {search.lowest_failed:.2f} requests/s"
    failed = "" if search.lowest_failed is None else f", not {search.lowest_failed:.2f}"
    times = "" if ours is None else f"  x{ours / search.highest:.2f}"
    return f"{search.highest:.2f} requests/s{failed}{times}"


def show_cost(console: Console, cost: HttpCost) -> None:
    """Print the throughput of both ways, in every round."""
    console.print(f"\n{NUM_STREAMS} streams computed at once: output tokens per second", style=STRONG)
    scale = max(cost.offline + cost.streamed)
    for name, rates in (("LLM.generate, offline", cost.offline), ("through HTTP, streamed", cost.streamed)):
        middle = median(rates)
        figures = ", ".join(f"{rate:,.0f}" for rate in rates)
        console.print(measured_bar(name, middle, scale, figures, ours=True))
    console.print(
        f"HTTP and streaming cost {cost.cost:.1%} (median of the rounds); {cost.num_equal} of {cost.num_compared} "
        f"answers are the same. The client took {median(cost.client_cpu_shares):.0%} of one core of the machine "
        "that the server needs.",
        style=FAINT,
    )
