"""Our server and its peers, one after another in one run, and the targets."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.peer_process import PeerError
from mini_vllm_labs.bench.serve.http_cost import HttpCost, measure_http_cost
from mini_vllm_labs.bench.serve.load import Load, Search, ServerFigures, measure, named, ratio
from mini_vllm_labs.bench.serve.server_process import OURS, TRANSFORMERS, MeasuredServer, server_command, why_missing
from mini_vllm_labs.pictures.terminal import progress

TIMES_THE_RATE = 3.0
MAX_HTTP_COST = 0.10


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Which servers get which load; `search` None: no rate is searched; `num_cost_rounds` 0: HTTP is not measured."""

    settings: BackendSettings
    load: Load
    servers: Sequence[str]
    search: Search | None
    num_cost_rounds: int


@dataclass(slots=True)
class ServerComparison:
    """The figures by server; `missing` has the reason why a peer is not among them."""

    measured: dict[str, ServerFigures] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    http_cost: HttpCost | None = None


@dataclass(frozen=True, slots=True)
class Aim:
    """A target, and what was found; None if nothing could be found."""

    text: str
    found: float | None
    met: bool


def compare(plan: ServingPlan, on_progress: progress.ProgressReport) -> ServerComparison:
    """Start every server, measure them in turns, and end them. Raises `PeerError` if ours cannot be measured."""
    comparison = ServerComparison()
    with ExitStack() as running:
        servers: dict[str, MeasuredServer] = {}
        for name in plan.servers:
            on_progress(f"{name}: starting", 0, 0)
            try:
                if (reason := why_missing(name)) is not None:
                    raise PeerError(reason)
                server = MeasuredServer(server_command(name, plan.settings))
                running.callback(server.stop)  # before the warm-up, which may fail
                plan.load.warm_up(server.endpoint, named(name, on_progress))
            except (PeerError, ValueError, OSError) as error:  # OSError: its program is not there
                if name == OURS:
                    raise
                comparison.missing[name] = str(error)
            else:
                servers[name] = server
        endpoints = {name: server.endpoint for name, server in servers.items()}
        comparison.measured = measure(endpoints, plan.load, plan.search, on_progress)
        if plan.num_cost_rounds:
            comparison.http_cost = measure_http_cost(
                servers[OURS], plan.settings, plan.load, plan.num_cost_rounds, on_progress
            )
    return comparison


def aims(comparison: ServerComparison) -> list[Aim]:
    """Return the targets, as far as they were measured."""
    found = []
    ours, theirs = (comparison.measured.get(name) for name in (OURS, TRANSFORMERS))
    if ours is not None and theirs is not None and ours.search is not None and theirs.search is not None:
        times = ratio(ours.search, theirs.search)
        text = f"at least {TIMES_THE_RATE:g} times the request rate of transformers serve at equal p99 TTFT"
        found.append(Aim(text, times, times is not None and times >= TIMES_THE_RATE))
    if (cost := comparison.http_cost) is not None:
        text = f"HTTP and streaming cost under {MAX_HTTP_COST:.0%} of offline throughput at 64 streams"
        found.append(Aim(text, cost.cost, cost.cost < MAX_HTTP_COST))
    return found


def as_record(model: str, plan: ServingPlan, comparison: ServerComparison) -> dict[str, Any]:
    """Return everything as a JSON object; times are seconds."""
    cost = comparison.http_cost
    return {
        "model": model,
        "settings": {**asdict(plan.settings), "model": model},
        "load": plan.load.as_record(),
        "servers": {name: measured_record(measured) for name, measured in comparison.measured.items()},
        "missing": comparison.missing,
        "http_cost": None if cost is None else {**asdict(cost), "ratio": cost.ratio, "cost": cost.cost},
        "aims": [asdict(aim) for aim in aims(comparison)],
    }


def measured_record(measured: ServerFigures) -> dict[str, Any]:
    """Return one server's figures as a JSON object."""
    search = measured.search
    found = None if search is None else {**asdict(search), "highest": search.highest}
    return {"report": asdict(measured.report), "rate_search": found}
