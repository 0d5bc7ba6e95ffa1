"""`mini-vllm bench router` compares three routers on the same requests in simulated time."""

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from mini_vllm_labs.bench.case import Case, Quantity, Side
from mini_vllm_labs.bench.fleet import FleetServed, simulate_fleet
from mini_vllm_labs.cli.bench.measured import run_cases
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import ProgressReport
from mini_vllm_labs.serving.router.policies import LeastLoaded, PrefixAware, RoundRobin, Router
from mini_vllm_labs.simulation.experiment import DEFAULT_LOAD, Experiment
from mini_vllm_labs.simulation.workloads import WORKLOADS, make_requests

ROUTERS: dict[str, Callable[[], Router]] = {
    "round robin": RoundRobin,
    "least loaded": LeastLoaded,
    "prefix-aware": PrefixAware,
}
PERCENTS = (50, 90, 99)
WHY = (
    "A replica can hit only what it has computed itself. Round robin spreads a conversation, or the questions about "
    "one text, over all replicas: each computes the same prefix. Time is simulated: a run with the same seed gives the "
    "same figures."
)
LOAD = 2.1  # a multiple of the rate that the replicas can sustain without cache hits, so they keep up only with hits


@friendly
def bench_router(
    workload: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")] = "shared-prefix",
    replicas: Annotated[int, typer.Option(min=1, help="Engines, each on its own simulated GPU.")] = 4,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 4_000,
    rate: Annotated[
        float | None, typer.Option(help=f"Requests per second. Default: {LOAD:g} times the rate without a cache.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the requests.")] = 0,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Send the same requests to simulated engines through three routers.

    Prints cache hits and the longest waits.
    """
    team = lineup_to_run(lineup, make_console(stderr=as_json))
    experiment = Experiment(workload, requests, None, seed).with_rate()
    assert experiment.rate is not None
    rate = rate or experiment.rate / DEFAULT_LOAD * LOAD * replicas
    timed = make_requests(workload, requests, rate, seed)

    def cases(report: ProgressReport) -> Iterator[Case]:
        served: dict[str, FleetServed] = {}
        for name, make_router in ROUTERS.items():
            report(f"{name}: {requests:,} requests")
            engines = experiment.resolved_engine(), experiment.cost, team
            served[name] = simulate_fleet(timed, *engines, make_router(), replicas)
        yield from cases_of(served)

    where = {"workload": workload, "replicas": replicas, "rate": rate, "num_requests": requests}
    run_cases(cases, lineup=team, seconds=requests / 200, as_json=as_json, closing=[WHY], facts=where)


def cases_of(served: dict[str, FleetServed]) -> Iterator[Case]:
    """Yield each router's hit rate and time to first token."""
    hits, waits = dict[str, Side](), dict[str, Side]()
    for name, one in served.items():
        computed, largest = Quantity(one.num_computed_tokens), Quantity(one.largest_share, "share")
        hits[name] = Side([one.hit_rate], {"tokens computed": computed, "largest share of a replica": largest})
        p50, p90, p99 = one.time_to_first_token(PERCENTS)
        waits[name] = Side([p99], {"p50": Quantity(p50, "s"), "p90": Quantity(p90, "s")})
    first = next(iter(served))
    yield Case("Tokens of prompts that the replica's cache supplied", "share", first, hits)
    yield Case("Time to the first token, 99th percentile", "s", first, waits)
