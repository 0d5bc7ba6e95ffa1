"""Workloads that the lab's engine serves in simulated time, and charts of what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course.notebook.charts import Charts, Measure, bar_charts, count, percent
from course.notebook.lab import Lab
from course.notebook.measurements import Measurement
from course.notebook.notice import Notice
from course.simulator.experiment import Experiment
from course.simulator.served import Served
from course.simulator.simulation import simulate
from course.simulator.workloads import WORKLOADS, make_requests
from course.views.figures import seconds
from course.views.text import counted

MEASURES: list[Measure[Served]] = [
    Measure("TTFT, median", lambda served: served.time_to_first_token([50])[0], seconds),
    Measure("TTFT, p95", lambda served: served.time_to_first_token([95])[0], seconds),
    Measure("most at once", lambda served: served.most_running, count),
    Measure("preempted", lambda served: served.num_preemptions, count),
    Measure("tokens computed", lambda served: served.num_computed_tokens, count),
    Measure("prompt tokens hit", lambda served: served.hit_rate, percent, most=1),
]
NUM_SAMPLED = 2_000


def serve(lab: Lab, workload: str, rate: float, num_requests: int = 400, **settings: Any) -> Served | Notice:
    """Serve a workload at `rate` requests per second, with the settings of the engine that are given."""
    experiment = Experiment(workload, num_requests=num_requests, rate=rate)
    config = replace(experiment.resolved_engine(), **settings)
    return lab.run(simulate, make_requests(workload, num_requests, rate), config, experiment.cost)


def served_bars(served: Mapping[str, Served | Notice]) -> Charts | Notice:
    """Return latencies and work of each run."""
    return bar_charts(served, MEASURES)


@dataclass(frozen=True)
class Lengths:
    """The lengths of a workload's prompts and answers, in tokens, shortest first."""

    prompts: Sequence[int]
    answers: Sequence[int]


def workload_bars() -> Charts | Notice:
    """Return the lengths of each named workload, and what it is."""
    lengths: dict[str, Lengths | Notice] = {}
    for name in WORKLOADS:
        requests = make_requests(name, NUM_SAMPLED, rate=1.0)
        lengths[name] = Lengths(
            sorted(each.num_prompt_tokens for each in requests), sorted(each.num_output_tokens for each in requests)
        )
    half = NUM_SAMPLED // 2
    measures: list[Measure[Lengths]] = [
        Measure("prompt tokens, median", lambda each: each.prompts[half], count),
        Measure("prompt tokens, longest", lambda each: each.prompts[-1], count),
        Measure("answer tokens, median", lambda each: each.answers[half], count),
    ]
    return bar_charts(lengths, measures, [f"{name}: {what}." for name, what in WORKLOADS.items()])


def seat_bars(measured: Sequence[Measurement] | Notice, seats: Sequence[int]) -> Charts | Notice:
    """Return the speed with each number of seats, and whether the texts are the same."""
    if isinstance(measured, Notice):
        return measured
    same = len({tuple(each.texts) for each in measured}) == 1
    measures: list[Measure[Measurement]] = [
        Measure("steps", lambda each: each.num_steps, count),
        Measure("time of a step", lambda each: each.seconds_per_step, seconds),
        Measure("tokens per second", lambda each: each.tokens_per_second, count),
    ]
    by_name = dict(zip((counted(number, "seat") for number in seats), measured, strict=True))
    return bar_charts(by_name, measures, ["The same texts." if same else "DIFFERENT texts!"])
