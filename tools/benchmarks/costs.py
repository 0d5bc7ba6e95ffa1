"""The sections of the page on the cost of scheduling and on the learner's loop."""

from course.terminal.charts import duration
from tools.benchmarks.table import Record, table


def scheduler(record: Record | None) -> str:
    """Return the cost of decisions."""
    head = "## `mini-vllm bench scheduler`\n\n"
    if record is None:
        return head + "Not measured.\n\n"
    costs = record["per_scheduled_request"]
    rows = [[f"a decode, {int(count):,} running", microseconds(cost["median"])] for count, cost in costs.items()]
    if (queue := record["long_queue"]) is not None:
        rows.append([f"a decode, 64 running, {queue['num_queued']:,} waiting", microseconds(queue["long"]["median"])])
        rows.append(["the same, divided by that with an empty queue", f"{queue['ratio']:.2f}"])
    if (pools := record["pool_sizes"]) is not None:
        rows.append(["a decode with a million blocks, divided by one with ten thousand", f"{pools['ratio']:.2f}"])
    admission = sum(cost["median"] for cost in record["per_admission"].values())
    rows.append(["an admission, 512 cached tokens", microseconds(admission)])
    return f"{head}CPU time of scheduling per request, the median round.\n\n" + table(["", "CPU time"], rows)


def microseconds(cost: float) -> str:
    """Return a cost with its unit."""
    return f"{cost:.2f} µs" if cost < 10 else f"{cost:.1f} µs"


def loop(record: Record | None) -> str:
    """Return how long a learner waits."""
    head = "## `mini-vllm bench loop`\n\n"
    if record is None:
        return head + "Not measured.\n\n"
    rows = [[wait["name"], duration(wait["seconds"])] for wait in record["seconds"]]
    return f"{head}How long a learner waits: new processes, the fastest run.\n\n" + table(
        ["from start to result", "wall-clock time"], rows
    )
