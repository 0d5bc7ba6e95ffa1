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
