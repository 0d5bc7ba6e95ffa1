"""Shows the arena in a notebook: compares four policies under a chosen load, using the learner's engine."""

from dataclasses import dataclass, replace
from typing import Any

from mini_vllm import Lineup
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.pictures.arena_report import pareto_picture
from mini_vllm_labs.pictures.knobs import Menu, Slider
from mini_vllm_labs.pictures.panels import Panel
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.runs.starter_status import starter_stamps
from mini_vllm_labs.simulation.arena.contest import Estimate, Race, run_race
from mini_vllm_labs.simulation.arena.loads import ArenaLoad
from mini_vllm_labs.simulation.experiment import ENGINE, Experiment, sustainable_rate
from mini_vllm_labs.simulation.workloads import WORKLOADS

POLICIES_SHOWN = ("fcfs", "sjf", "least-slack", "vtc")
KNOBS = (
    Menu("workload", "workload", "burst", tuple(WORKLOADS)),
    Slider("load", "load", 300, 50, 400, 25, "%"),
    Slider("heavy_share", "share of tenant 1", 60, 40, 90, 10, "%"),
    Slider("max_num_seqs", "max_num_seqs", 64, 16, 128, 16, "seats"),
)


@dataclass(frozen=True, slots=True)
class ArenaSetting:
    """The values of the knobs. The load is a percentage of the rate that the engine can sustain without cache hits."""

    workload: str = "burst"
    load: float = 300
    heavy_share: float = 60
    max_num_seqs: int = 64
    num_requests: int = 600


def contest_of(setting: ArenaSetting, lineup: Lineup) -> dict[str, tuple[float, float]]:
    """Run each policy with one seed; return its mean seconds per request and Jain's index.

    Raises `ValueError` if the engine stalls.
    """
    team = replace(lineup, runner="absent")
    experiment = Experiment(engine=replace(ENGINE, max_num_seqs=setting.max_num_seqs))
    config, cost = experiment.resolved_engine(), experiment.cost
    sample = ArenaLoad(setting.workload, setting.num_requests, 1.0).requests(0)
    rate = sustainable_rate(sample, config, cost) * setting.load / 100
    load = ArenaLoad(setting.workload, setting.num_requests, rate, heavy_share=setting.heavy_share / 100)
    try:
        names = [name for name in POLICIES_SHOWN if POLICIES[name].is_written]
        runs = {name: run_race(Race(name, load, 0, config, cost, team)) for name in names}
    except StalledError as error:
        raise ValueError(str(error)) from error
    return {name: (run.e2e.mean, run.jain_index) for name, run in runs.items()}


def arena_bench(lab: Lab) -> Panel | Notice:
    """Return knobs for a contest in which the lab's engine serves the requests."""
    begun = ArenaSetting(), starter_stamps()
    first = lab.run(contest_of, begun[0])
    if isinstance(first, Notice):
        return first
    ready, known = lab.kept_ready(), {begun: first}

    def draw(width: float = WIDTH, before: object = None, **asked: Any) -> Picture:
        setting = ArenaSetting(**asked)
        asking = setting, starter_stamps()
        if asking not in known:
            known[asking] = require_result(ready.run(contest_of, setting))
        places = {
            name: (Estimate.of([seconds]), Estimate.of([jain])) for name, (seconds, jain) in known[asking].items()
        }
        return pareto_picture(places, conditions(setting), width)

    return Panel(KNOBS, draw, reflows=True)


def conditions(setting: ArenaSetting) -> str:
    """Describe the run that the picture shows."""
    return (
        f"{setting.num_requests} requests of {setting.workload} at {setting.load:g}% of capacity, three tenants, "
        f"the first sends {setting.heavy_share:g}%; {setting.max_num_seqs} seats, H100, Llama-3.1-8B"
    )
