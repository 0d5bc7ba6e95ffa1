"""The sections of the page on features, on the cost of scheduling, on the learner's loop and on the simulator."""

from bench.cli.features import settings_text
from course.simulator.measured_engine import FITTED_ON
from course.terminal.charts import duration
from tools.benchmarks.table import Record, table

WAITS = (("time to first token", "time_to_first_token"), ("between tokens", "inter_token_latency"))
PERCENTILES = (("median", "p50"), ("p99", "p99"))


def feature(record: Record) -> str:
    """Return the figures with a feature and without it."""
    same, both = record["equal_requests"]
    without = settings_text(record["without"]["settings"])
    if record["absent_without"]:
        without += f", and these parts absent: {', '.join(record['absent_without'])}"
    return (
        f"{record['workload'].capitalize()}, on the embedded model; threads: {record['num_threads']}. The same "
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


def scheduler(record: Record) -> str:
    """Return the cost of decisions."""
    costs = record["per_scheduled_request"]
    rows = [[f"a decode, {int(count):,} running", microseconds(cost["median"])] for count, cost in costs.items()]
    if (queue := record["long_queue"]) is not None:
        rows.append([f"a decode, 64 running, {queue['num_queued']:,} waiting", microseconds(queue["long"]["median"])])
        rows.append(["the same, divided by that with an empty queue", f"{queue['ratio']:.2f}"])
    if (pools := record["pool_sizes"]) is not None:
        rows.append(["a decode with a million blocks, divided by one with ten thousand", f"{pools['ratio']:.2f}"])
    admission = sum(cost["median"] for cost in record["per_admission"].values())
    rows.append(["an admission, 512 cached tokens", microseconds(admission)])
    return "CPU time of scheduling per request, the median round.\n\n" + table(["", "CPU time"], rows)


def microseconds(cost: float) -> str:
    """Return a cost with its unit."""
    return f"{cost:.2f} µs" if cost < 10 else f"{cost:.1f} µs"


def loop(record: Record) -> str:
    """Return how long a learner waits."""
    rows = [[wait["name"], duration(wait["seconds"])] for wait in record["seconds"]]
    head = "How long a learner waits: new processes, the fastest run.\n\n"
    return head + table(["from start to result", "wall-clock time"], rows)


def simulator(record: Record) -> str:
    """Return predictions and measurements, figure by figure."""
    fitted, compared, tolerance = record["calibration"], record["agreement"], record["tolerance"]
    num_near, num_rounds = sum(row["agrees"] for row in compared), len(compared[0]["ratios"])
    return (
        f"The simulator's cost model was fitted to {fitted['num_steps']:,} steps of the workload {FITTED_ON!r}, "
        f"model {fitted['model']!r}, {fitted['dtype']}. Then it predicted three other workloads, and the real engine "
        f"served them: {num_near} of {len(compared)} predictions are within {tolerance:.0%} of the measurement. "
        f"Each figure is the median of {num_rounds} rounds by ratio; in each the fit was measured before and "
        "after the predicted workload. Where one thread computes, as with the embedded model, seconds are CPU seconds. "
        "This is not a blind test: the method and the number of rounds were chosen while looking at these "
        "workloads, and with the default of five rounds one or two of the figures were off in some runs.\n\n"
        + table(
            ["", "measured", "predicted", "predicted / measured", "in all rounds", ""],
            [_row(row, tolerance) for row in compared],
        )
    )


def _row(row: Record, tolerance: float) -> list[str]:
    show = "{:,.0f}".format if row["figure"] == "tokens/s" else duration
    verdict = "" if row["agrees"] else f"**off by {abs(row['ratio'] - 1):.0%}**"
    return [
        f"{row['workload']}, {row['figure']}",
        show(row["measured"]),
        show(row["predicted"]),
        f"{row['ratio']:.2f}",
        f"{row['ratios'][0]:.2f} to {row['ratios'][-1]:.2f}",
        verdict,
    ]
