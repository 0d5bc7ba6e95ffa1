"""`mini-vllm arena` compares policies in simulated time; `claims` measures what papers claim about policies."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from mini_vllm import Lineup
from mini_vllm_labs.pictures.arena_report import LATENCIES, WORK, estimate, figures_table, goodput_table, pareto_picture
from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.engine_options import SchedulerOptions, engine_config
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.step_view import FAINT, STRONG
from mini_vllm_labs.policies.named import POLICIES, find_policy
from mini_vllm_labs.simulation.arena.claims import CLAIMS, PolicyClaim
from mini_vllm_labs.simulation.arena.contest import Estimate, Race, run_races
from mini_vllm_labs.simulation.arena.figures import Figures
from mini_vllm_labs.simulation.arena.loads import ArenaLoad, TraceLoad
from mini_vllm_labs.simulation.experiment import ENGINE, Experiment, sustainable_rate
from mini_vllm_labs.simulation.gpus import GPUS
from mini_vllm_labs.simulation.model_shapes import MODEL_SHAPES
from mini_vllm_labs.simulation.workloads import WORKLOADS

SEATS = 64  # fewer than the simulator's 256, so that requests wait where a policy can order them


@dataclass(frozen=True)
class ArenaOptions:
    policies: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join(POLICIES)}. Default: four of them; or 'all'.")
    ] = None
    workload: Annotated[str, typer.Option(help=f"One of {', '.join(WORKLOADS)}.")] = "burst"
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A .csv or .jsonl trace by Azure, BurstGPT, Mooncake or Qwen-Bailian."),
    ] = None
    speed: Annotated[float, typer.Option(help="Speed up the arrivals of a trace by this factor.")] = 1.0
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 1_000
    load: Annotated[
        str, typer.Option(metavar="A,B,C", help="Arrival rate in percent of what the engine serves without cache hits.")
    ] = "130"
    tenants: Annotated[int, typer.Option(min=1, help="Number of tenants; the first sends 60% of the requests.")] = 3
    seeds: Annotated[int, typer.Option(min=1, help="Runs with different requests; two or more give intervals.")] = 3
    gpu: Annotated[str, typer.Option(help=f"One of {', '.join(gpu.name for gpu in GPUS)}.")] = "H100"
    model: Annotated[str, typer.Option(help=f"One of {', '.join(s.name for s in MODEL_SHAPES)}.")] = "Llama-3.1-8B"
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a dask cluster instead of this machine's cores.")
    ] = None
    picture: Annotated[str | None, typer.Option(metavar="FILE", help="Plot latency against fairness as SVG.")] = None

    def chosen(self) -> list[str]:
        names = self.policies or [name for name in ("fcfs", "sjf", "vtc", "least-slack") if POLICIES[name].is_written]
        names = list(POLICIES) if names == ["all"] else list(dict.fromkeys(names))
        for name in names:
            find_policy(name)
        return names

    def loads(self, experiment: Experiment) -> dict[str, ArenaLoad | TraceLoad]:
        """Return the loads, keyed by title."""
        if self.trace is not None:
            return {Path(self.trace).name: TraceLoad(self.trace, self.requests, self.speed)}
        try:
            percents = [float(text) for text in self.load.split(",")]
        except ValueError:
            raise ValueError(f"load must be a list of percentages such as 70,95, got {self.load!r}") from None
        sample = ArenaLoad(self.workload, self.requests, 1.0, self.tenants).requests(0)
        capacity = sustainable_rate(sample, experiment.resolved_engine(), experiment.cost)
        found: dict[str, ArenaLoad | TraceLoad] = {}
        for percent in percents:
            if not percent > 0:
                raise ValueError(f"load must be greater than 0%, got {percent:g}")
            rate = float(f"{capacity * percent / 100:.3g}")
            title = f"{self.workload} at {percent:g}% of capacity: {rate:g} requests a second"
            found[title] = ArenaLoad(self.workload, self.requests, rate, self.tenants)
        return found


@friendly
@with_option_groups
def arena(
    *, options: ArenaOptions, lineup: LineupText = None, as_json: AsJson = False, engine: SchedulerOptions
) -> None:
    """Run scheduling policies on the same requests and show which requests lose.

    Goodput counts the requests that received everything their class was promised. Intervals are 95% confidence
    intervals over the seeds.
    """
    names = options.chosen()
    experiment = Experiment(
        workload=options.workload,
        gpu=options.gpu,
        model=options.model,
        engine=engine_config(replace(ENGINE, max_num_seqs=SEATS), engine),
    )
    console = make_console(stderr=as_json)
    team = replace(lineup_to_run(lineup, console), runner="absent")
    loads, config, cost = options.loads(experiment), experiment.resolved_engine(), experiment.cost
    seeds = range(options.seeds)
    races = [Race(name, load, seed, config, cost, team) for load in loads.values() for name in names for seed in seeds]
    console.print(whose_code(team), markup=False)
    for name in names:
        console.print(f"{name}: {POLICIES[name].text}", style=FAINT, markup=False, highlight=False)
    for title, load in loads.items():
        if isinstance(load, TraceLoad) and (lost := load.left_out()):
            console.print(f"{title} has columns that the arena ignores: {lost}", markup=False, highlight=False)
    with reported("Simulating") as report:
        found = run_races(races, options.dask, lambda done: report("Simulating", done, len(races)))
    by_title: dict[str, dict[str, list[Figures]]] = {title: {name: [] for name in names} for title in loads}
    figures = iter(found)
    for title in loads:
        for name in names:
            by_title[title][name] = [next(figures) for _ in seeds]
    if as_json:
        typer.echo(json.dumps({"lineup": str(team), "loads": {t: _record(by_title[t]) for t in by_title}}))
    else:
        for title, results in by_title.items():
            console.print(f"\n{title}; {options.gpu}, {options.model}", style=STRONG, markup=False)
            console.print("Requests that kept every promise of their class", style=FAINT)
            console.print(goodput_table(results))
            console.print(figures_table(results, LATENCIES))
            console.print(figures_table(results, WORK))
    if options.picture is not None:
        title, results = list(by_title.items())[-1]
        drawing = pareto_picture({name: _place(runs) for name, runs in results.items()}, title)
        Path(options.picture).write_text(drawing.svg(), encoding="utf-8")
        console.print(drawing.text_alternative, markup=False)


def _place(runs: list[Figures]) -> tuple[Estimate, Estimate]:
    return estimate(runs, lambda run: run.e2e.mean), estimate(runs, lambda run: run.jain_index)


def _record(results: dict[str, list[Figures]]) -> dict[str, list[dict[str, object]]]:
    return {name: [asdict(run) for run in runs] for name, runs in results.items()}


@friendly
def claims(
    words: Annotated[list[str] | None, typer.Argument(help="Only claims whose name has one of these words.")] = None,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Measure what papers claim about scheduling policies, on simulated requests.

    Each claim is tested with three seeds; together, the claims take about a minute on two cores.
    """
    chosen = [claim for claim in CLAIMS if not words or any(word.lower() in claim.name.lower() for word in words)]
    if not chosen:
        raise ValueError(
            f"no claim contains {' or '.join(words or [])}; the claims are: {'; '.join(c.name for c in CLAIMS)}"
        )
    console, found = make_console(stderr=as_json), []
    team = replace(lineup_to_run(lineup, console), runner="absent")
    console.print(whose_code(team), markup=False)
    with reported("Simulating") as report:
        for number, claim in enumerate(chosen):
            report(claim.name, number, len(chosen))
            found.append(_measured(claim, team))
    for claim, (ours, holds) in zip(chosen, found, strict=True):
        console.print(f"\n{claim.name} ({claim.source})", style=STRONG, markup=False)
        table = Table.grid(padding=(0, 2, 0, 2))
        table.add_row("said", escape(claim.said))
        table.add_row("here", escape(f"{ours}: not shown" if holds is False else ours))
        table.add_row("differs", escape(claim.differs), style=FAINT)
        console.print(table)
    if as_json:
        typer.echo(json.dumps([_claim_record(claim, *each) for claim, each in zip(chosen, found, strict=True)]))


def _measured(claim: PolicyClaim, lineup: Lineup) -> tuple[str, bool | None]:
    """Return a claim's result and whether it holds; return None if it needs code that has not been written."""
    try:
        return claim.measure(lineup)
    except NotImplementedError as error:
        return f"not measured: {error} is not written yet", None


def _claim_record(claim: PolicyClaim, ours: str, holds: bool | None) -> dict[str, object]:
    return {"name": claim.name, "source": claim.source, "said": claim.said, "ours": ours, "holds": holds}
