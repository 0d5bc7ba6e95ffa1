"""The section of the page on the server: request rates beside its peers, and what HTTP costs."""

from statistics import median

from tools.benchmarks.table import Record, table


def serving(records: list[Record]) -> str:
    """Return the rates, latencies and aims of each record; a record is one model."""
    head = "## `mini-vllm bench serve`\n\n"
    if not records:
        return head + "Not measured.\n\n"
    method = (
        "Each server in turn gets the same Poisson arrivals; the rate is the highest at which the 99th percentile of "
        "the time to the first token stays within the bound.\n\n"
    )
    return head + method + "".join(map(_model, records))


def _model(record: Record) -> str:
    rows = [_server(name, one) for name, one in record["servers"].items()]
    columns = ["", "requests/s held", "not held", "p99 of the first token there", "all at once, tokens/s"]
    text = f"### {record['model']}\n\n" + table(columns, rows)
    text += "".join(f"{name} is missing: {reason}\n\n" for name, reason in record["missing"].items())
    if (cost := record["http_cost"]) is not None:
        offline, streamed = median(cost["offline"]), median(cost["streamed"])
        text += (
            f"64 streams computed at once: {streamed:,.0f} tokens/s through HTTP, {offline:,.0f} offline (medians of "
            f"{len(cost['offline'])} rounds in turns), in the median round {cost['ratio']:.2f} of it; "
            f"{cost['num_equal']} of {cost['num_compared']} answers are the same.\n\n"
        )
    aims = [[aim["text"], _found(aim["found"]), "met" if aim["met"] else "**missed**"] for aim in record["aims"]]
    return text + table(["aim", "found", ""], aims)


def faults(record: Record | None) -> str:
    """Return what clients, garbage and failing steps have left behind, part by part."""
    head = "## `mini-vllm bench serve-faults --minutes 10`\n\n"
    if record is None:
        return head + "Not measured.\n\n"
    rows = [[part["name"], *_counts(part), "; ".join(part["problems"]) or "nothing"] for part in record["parts"]]
    columns = ["", "requests", "whole answers", "equal to offline", "refused", "left", "failed", "MiB", "does not hold"]
    return (
        f"{head}After each part every block is free, every queue empty, and no thread or file is open that was not "
        "open before the first. Steady load lasted ten minutes.\n\n" + table(columns, rows)
    )


def _counts(part: Record) -> list[str]:
    tally, after = part["tally"], part["after"]
    counts = (tally[name] for name in ("requests", "completed", "equal", "refused", "aborted", "failed"))
    sizes = [part["before"]["rss"], *([] if after is None else [after["rss"]])]
    return [*(f"{count:,}" for count in counts), " to ".join(f"{size / 2**20:,.0f}" for size in sizes)]


def _server(name: str, one: Record) -> list[str]:
    search = one["rate_search"]
    held = [probed for probed in search["probed"] if probed["holds"]]
    failed = [probed["rate"] for probed in search["probed"] if not probed["holds"]]
    best = max(held, key=lambda probed: float(probed["rate"]), default=None)
    return [
        name,
        "none" if best is None else f"{best['rate']:.1f}",
        f"{min(failed):.1f}" if failed else "",
        "" if best is None else f"{1e3 * best['p99_ttft']:,.0f} ms of {1e3 * search['bound']:,.0f}",
        f"{one['report']['output_throughput']:,.0f}",
    ]


def _found(value: float | None) -> str:
    return "not found" if value is None else f"{value:.3g}"
