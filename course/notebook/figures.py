"""Charts that compare runs of one workload."""

from collections.abc import Mapping

from course.fresh.jobs import WorkloadRun
from course.notebook.charts import Charts, Measure, bar_charts, count
from course.notebook.notice import Notice
from course.notebook.run_facts import RunFacts

LEGEND = "Largest step, computed and from the cache in tokens. Again: tokens that had been computed before."
MEASURES: list[Measure[RunFacts]] = [
    Measure("steps", lambda run: run.num_steps, count),
    Measure("most at once", lambda run: run.most_at_once, count),
    Measure("largest step", lambda run: run.largest_step, count),
    Measure("computed", lambda run: run.num_computed, count),
    Measure("again", lambda run: run.num_recomputed, count),
    Measure("from the cache", lambda run: run.num_hit, count),
    Measure("preempted", lambda run: run.num_preemptions, count),
]


def figures(runs: Mapping[str, WorkloadRun | Notice], first_token: str = "") -> Charts | Notice:
    """Return the figures of some runs by their names, or the first of them that is a `Notice`.

    `first_token` is a request of which the step of the first token is shown too.
    """
    facts = {name: run if isinstance(run, Notice) else RunFacts(run) for name, run in runs.items()}
    stalled = [name for name, run in runs.items() if isinstance(run, WorkloadRun) and run.stalled]
    below = [f"Stalled, and did not finish: {', '.join(stalled)}."] if stalled else []
    texts = [run.token_ids for run in runs.values() if isinstance(run, WorkloadRun)]
    if len(texts) > 1 and all(each == texts[0] for each in texts):
        below.append("Every run has the same answers.")
    asked: list[Measure[RunFacts]] = [
        Measure(f"first token of {first_token}, step", lambda run: run.first_token(first_token), count)
    ]
    return bar_charts(facts, [*asked[: len(first_token)], *MEASURES], [*below, LEGEND])
