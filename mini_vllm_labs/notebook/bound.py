"""Charts what limited a simulated load: the fraction of time spent on each reason, before and after changing one
setting."""

from functools import partial
from typing import NamedTuple

from mini_vllm import Lineup
from mini_vllm_labs.notebook.charts import Charts, Measure, bar_charts, percent
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.pictures.bars import SHARE
from mini_vllm_labs.pictures.quantities import digits, seconds
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.relief import by_mark, relieved, waits_sentence
from mini_vllm_labs.simulation.served import Slo
from mini_vllm_labs.simulation.summary import Summary, summarize
from mini_vllm_labs.simulation.waiting import WaitingTimes

Found = tuple[str, Summary, dict[str, float]]
"""A run's name, its summary, and the seconds without a token by the name of the reason."""


class BoundRun(NamedTuple):
    """A run of `num_requests` requests, and the seconds in which they got no tokens, by reason."""

    summary: Summary
    waited: dict[str, float]
    num_requests: int

    def share(self, mark: str) -> float:
        """Return the fraction of all requests' time spent waiting for a given reason; for "", the fraction spent
        receiving tokens."""
        total, waits = self.summary.e2e_latency.mean * self.num_requests, by_mark(self.waited)
        return (waits.get(mark, 0.0) if mark else total - sum(waits.values())) / total


def run_twice(workload: str, rate: float, num_requests: int, settings: dict[str, str], lineup: Lineup) -> list[Found]:
    """Run a load, then run it again after changing the setting that the longest waits point to."""
    experiment = Experiment(workload, num_requests, rate)
    for name, value in settings.items():
        experiment = experiment.with_setting(name, value)
    first = run("as it is", experiment, lineup)
    change = relieved(experiment, first[2])
    return [first] if change is None else [first, run(change[0].partition(" instead")[0], change[1], lineup)]


def run(name: str, experiment: Experiment, lineup: Lineup) -> Found:
    waits = WaitingTimes()
    return name, summarize(experiment.run(lineup, waits=waits), Slo()), dict(waits.seconds)


def bound_bars(lab: Lab, workload: str, rate: float, num_requests: int = 400, **settings: object) -> Charts | Notice:
    """Chart what limited a load at `rate` requests per second, and what a second run gains."""
    found = lab.run(run_twice, workload, rate, num_requests, {name: str(value) for name, value in settings.items()})
    if isinstance(found, Notice):
        return found
    runs = {
        label: BoundRun(summary, waited, num_requests)
        for label, (_, summary, waited) in zip(("first run", "second run"), found, strict=False)
    }
    marks = dict.fromkeys(mark for one in runs.values() for mark in by_mark(one.waited) if one.share(mark) >= 0.005)
    measures: list[Measure[BoundRun]] = [
        Measure("time with a token", partial(BoundRun.share, mark=""), percent, others=SHARE),
        *(Measure(f"waiting: {mark}", partial(BoundRun.share, mark=mark), percent, others=SHARE) for mark in marks),
        Measure("TTFT, p99", lambda one: one.summary.time_to_first_token.p99, seconds),
        Measure("goodput, requests per second", lambda one: one.summary.goodput, digits),
    ]
    words = [f"{label}, {name}: {waits_sentence(waited)}" for label, (name, _, waited) in zip(runs, found, strict=True)]
    return bar_charts(runs, measures, words)
