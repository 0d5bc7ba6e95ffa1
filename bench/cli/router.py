"""`mini-vllm bench router`: round robin, least loaded and prefix-aware, on the same requests in simulated time."""

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from bench.cli.announced import measuring
from bench.fleet import FleetServed, simulate_fleet
from course.simulator.experiment import DEFAULT_LOAD, Experiment
from course.simulator.workloads import WORKLOADS, make_requests
from course.terminal.charts import duration, measured_bar
from course.terminal.console import friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText
from course.terminal.step_view import FAINT, STRONG
from serving.router.policies import LeastLoaded, PrefixAware, RoundRobin, Router

ROUTERS: dict[str, Callable[[], Router]] = {
    "round robin": RoundRobin,
    "least loaded": LeastLoaded,
    "prefix-aware": PrefixAware,
}
PERCENTS = (50, 90, 99)
LOAD = 2.1  # times what the replicas sustain without cache hits: caches have to help


@friendly
def bench_router(
    workload: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")] = "shared-prefix",
    replicas: Annotated[int, typer.Option(min=1, help="Engines, each on its own simulated GPU.")] = 4,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 4_000,
    rate: Annotated[
        float | None,
        typer.Option(help=f"Requests per second. Default: {LOAD:g} times what they sustain without a cache."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the requests.")] = 0,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Send the same requests to simulated engines by three routers.

    Prints hits, and the longest waits.
    """
    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console)
    experiment = Experiment(workload, requests, None, seed).with_rate()
    assert experiment.rate is not None
    rate = rate or experiment.rate / DEFAULT_LOAD * LOAD * replicas
    timed = make_requests(workload, requests, rate, seed)

    served: dict[str, FleetServed] = {}
    with measuring("Simulating", requests / 200) as report:
        for name, make_router in ROUTERS.items():
            report(text := f"{name}: {requests:,} requests")
            engines = experiment.resolved_engine(), experiment.cost, team
            served[name] = simulate_fleet(timed, *engines, make_router(), replicas)
            last = duration(served[name].time_to_first_token([99])[0])
            report(text, found=f"{name}: {served[name].hit_rate:.0%} hits, 99th percentile of the first token {last}")
    if as_json:
        records = {name: as_record(one) for name, one in served.items()}
        typer.echo(json.dumps({"workload": workload, "replicas": replicas, "rate": rate, "routers": records}))
        return
    console.print(whose_code(team), markup=False)
    console.print(f"\n{requests:,} requests of {workload}, {rate:.1f} per second, {replicas} replicas", style=STRONG)
    show(console, served)


def as_record(served: FleetServed) -> dict[str, object]:
    """Return a run's figures; times are seconds."""
    return {
        "hit_rate": served.hit_rate,
        "num_computed_tokens": served.num_computed_tokens,
        "largest_share": served.largest_share,
        "time_to_first_token": dict(zip(("p50", "p90", "p99"), served.time_to_first_token(PERCENTS), strict=True)),
    }


def show(console: Console, served: dict[str, FleetServed]) -> None:
    """Print the share of hits and the time to the first token as bars."""
    console.print("\ntokens of prompts found in the replica's cache", style=FAINT)
    for name, one in served.items():
        figures = f"{one.hit_rate:.0%}, {one.num_computed_tokens:,} tokens computed"
        console.print(measured_bar(name, one.hit_rate, 1.0, figures, ours=name == "prefix-aware"))
    console.print("\ntime to the first token, 99th percentile", style=FAINT)
    slowest = max(one.time_to_first_token([99])[0] for one in served.values())
    for name, one in served.items():
        middle, _, last = one.time_to_first_token(PERCENTS)
        figures = f"{duration(last)}, median {duration(middle)}"
        console.print(measured_bar(name, last, slowest, figures, ours=name == "prefix-aware"))
    console.print(
        "\nA replica can hit only what it has computed itself. Round robin spreads a conversation, or the questions "
        "about one text, over all replicas: each computes the same prefix. Time is simulated: a "
        "run with the same seed gives the same figures.",
        style=FAINT,
    )
