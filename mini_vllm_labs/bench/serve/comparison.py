"""Sends servers the same load in turn; the cases contain the rates that each server sustained, and the targets."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.case import Case, Quantity, Side
from mini_vllm_labs.bench.peer_process import PeerError
from mini_vllm_labs.bench.serve.http_cost import STREAMED, http_case
from mini_vllm_labs.bench.serve.load import Probed, RateSearch, Search, ServeLoad, measure
from mini_vllm_labs.bench.serve.report import RoundReport
from mini_vllm_labs.bench.serve.server_process import OURS, TRANSFORMERS, MeasuredServer, server_command, why_missing
from mini_vllm_labs.bench.serve.text_requests import Endpoint
from mini_vllm_labs.pictures.terminal import progress

TIMES_THE_RATE = 3.0
MAX_HTTP_COST = 0.10


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Which servers receive which load.

    If `search` is None, there is no search for the highest rate; if `num_cost_rounds` is 0, the cost of HTTP is not
    measured.
    """

    settings: BackendSettings
    load: ServeLoad
    servers: Sequence[str]
    search: Search | None
    num_cost_rounds: int


def server_cases(plan: ServingPlan, facts: dict[str, Any], on_progress: progress.ProgressReport) -> Iterator[Case]:
    """Start every server, yield the results, and finally stop the servers.

    Raises `PeerError` if our own server cannot be measured.

    `facts` receives the servers' reports, the reasons why any servers are missing, and the targets.
    """
    with ExitStack() as running:
        missing: dict[str, str] = {}
        endpoints: dict[str, Endpoint] = {}
        for name in plan.servers:
            on_progress(f"{name}: starting", 0, 0)
            try:
                if (reason := why_missing(name)) is not None:
                    raise PeerError(reason)
                server = MeasuredServer(server_command(name, plan.settings))
                running.callback(server.stop)  # registered before the warm-up, which may fail
                plan.load.warm_up(name, server.endpoint, on_progress)
            except (PeerError, ValueError, OSError) as error:  # OSError means that the server's program does not exist
                if name == OURS:
                    raise
                missing[name] = str(error)
            else:
                endpoints[name] = server.endpoint
        facts |= {"missing": missing, "settings": asdict(plan.settings), "aims": (found := [])}
        for case in load_cases(endpoints, plan.load, plan.search, facts, on_progress):
            yield case
            if case.unit == "requests/s" and TRANSFORMERS in endpoints:
                times = case.ratio(TRANSFORMERS) if {OURS, TRANSFORMERS} <= case.sides.keys() else None
                text = f"at least {TIMES_THE_RATE:g} times the request rate of transformers serve at equal p99 TTFT"
                found.append({"text": text, "found": times, "met": times is not None and times >= TIMES_THE_RATE})
        if plan.num_cost_rounds:
            yield (case := http_case(endpoints[OURS], plan.settings, plan.load, plan.num_cost_rounds, on_progress))
            cost = 1 - case.ratio(STREAMED)
            text = f"HTTP and streaming cost less than {MAX_HTTP_COST:.0%} of the offline throughput at 64 streams"
            found.append({"text": text, "found": cost, "met": cost < MAX_HTTP_COST})


def load_cases(
    endpoints: Mapping[str, Endpoint],
    load: ServeLoad,
    search: Search | None,
    facts: dict[str, Any],
    on_progress: progress.ProgressReport,
) -> Iterator[Case]:
    """Yield the throughput under the load, and each server's highest rate if a search was requested.

    `facts` receives `sent` (what was sent), `servers` (the figures as JSON) and `reports`.
    """
    reports, searches = measure(endpoints, load, search, on_progress)
    found = {name: {"report": asdict(report), "rate_search": None} for name, report in reports.items()}
    for name, one in searches.items():
        found[name]["rate_search"] = {**asdict(one), "highest": one.highest}
    facts |= {"sent": load.as_record(), "servers": found, "reports": reports}
    base = OURS if OURS in reports else ""
    sides = {name: Side([one.output_throughput], latencies(one)) for name, one in reports.items()}
    rate = "all at once" if load.request_rate == math.inf else f"{load.request_rate:g} per second"
    title = f"{load.workload}, {load.num_requests} requests, {rate}"
    yield Case(title, "tokens/s", base, sides, base_over_side=True)
    if search is not None:
        yield search_case(search.bound, searches, base)


def latencies(report: RoundReport) -> dict[str, Quantity]:
    """Return the median and the 99th percentile of the latencies, and the number of failed requests."""
    figures = {
        f"{name.upper()} {percent}": Quantity(getattr(getattr(report, name), percent), "s")
        for name in ("ttft", "tpot", "itl", "e2el")
        for percent in ("p50", "p99")
    }
    return {**figures, "failed": Quantity(sum(report.failed.values()))}


def search_case(bound: float, searches: Mapping[str, RateSearch], base: str) -> Case:
    """Return the highest rate that each server sustained; every rate that was tried becomes a note."""
    sides, notes = {}, []
    for name, search in searches.items():
        failed = {}
        if search.lowest_failed is not None:
            failed["lowest rate not sustained"] = Quantity(search.lowest_failed, "requests/s")
        if search.highest is not None:
            p99 = next(probed.p99_ttft for probed in search.probed if probed.rate == search.highest)
            sides[name] = Side([search.highest], {"TTFT p99 at this rate": Quantity(p99, "s"), **failed})
        notes.append(f"{name}: {'; '.join(map(said_of, search.probed))}.")
    title = f"The highest request rate with p99 TTFT within {1e3 * bound:g} ms"
    return Case(title, "requests/s", base if base in sides else "", sides, notes, base_over_side=True)


def said_of(probed: Probed) -> str:
    """Return the outcome of a rate, with the reason if the server did not sustain it."""
    p99 = f"p99 {1e3 * probed.p99_ttft:.0f} ms"
    why = f"not sustained, {p99}, {probed.left_over:.0%} piled up, {probed.num_failed} failed"
    return f"{probed.rate:.2f} requests/s: " + (f"sustained, {p99}" if probed.holds else why)
