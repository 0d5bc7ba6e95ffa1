"""The section of the page on the gain from a feature."""

from bench.cli.features import settings_text
from course.terminal.charts import duration
from tools.benchmarks.table import Record, table

WAITS = (("time to first token", "time_to_first_token"), ("between tokens", "inter_token_latency"))
PERCENTILES = (("median", "p50"), ("p99", "p99"))


def feature(record: Record | None, name: str) -> str:
    """Return the figures with a feature and without it."""
    head = f"## `mini-vllm bench {name}`\n\n"
    if record is None:
        return head + "Not measured.\n\n"
    same, both = record["equal_requests"]
    without = settings_text(record["without"]["settings"])
    if record["absent_without"]:
        without += f", and these parts absent: {', '.join(record['absent_without'])}"
    return (
        f"{head}{record['workload'].capitalize()}, on the embedded model; threads: {record['num_threads']}. The same "
        f"engine with it ({settings_text(record['with']['settings'])}) and without it ({without}). Same tokens in "
        f"{same} of {both} requests.\n\n"
        + table(["", "with it", "without it", "with, divided by without"], figures(record))
        + "More is better in the first row, less in the others.\n\n"
    )


def figures(record: Record) -> list[list[str]]:
    """Return the rows of the table: the rate, then the waiting times."""
    one, other = (record[side]["output_tokens_per_second"] for side in ("with", "without"))
    rows = [["output tokens per second", f"{one:,.0f}", f"{other:,.0f}", f"{one / other:.2f}"]]
    for words, key in WAITS:
        for which, percent in PERCENTILES:
            one, other = (record[side][key][percent] for side in ("with", "without"))
            rows.append([f"{words}, {which}", duration(one), duration(other), f"{one / other:.2f}"])
    return rows
