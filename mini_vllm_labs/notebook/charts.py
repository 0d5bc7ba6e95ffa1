"""Shows small charts side by side in a cell: one per measure across several runs, or one per run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Generic, TypeVar

from mini_vllm_labs.fresh.jobs import ChatRun, WorkloadRun
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.pictures import HasRecording
from mini_vllm_labs.notebook.recorded_mark import first_mark, marked_html, marked_text
from mini_vllm_labs.notebook.run_facts import RunFacts
from mini_vllm_labs.pictures.bars import SMALL_WIDTH, bars, in_unit
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.time_machine import latency_bars, wait_strip
from mini_vllm_labs.runs.traces.recording import Recording

T = TypeVar("T")
WIDE = 420
SIDE_BY_SIDE = "display:flex;flex-wrap:wrap;gap:4px 8px;max-width:1100px"


@dataclass(frozen=True)
class Charts:
    """Small pictures, as many per row as will fit, with texts `below`; `recorded` is as in `WorkloadRun`.

    `rows` contains each run's figures, keyed by heading.
    """

    pictures: Sequence[Picture]
    below: Sequence[str] = ()
    recorded: str = ""
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return marked_text("\n".join([*(each.text_alternative for each in self.pictures), *self.below]), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        shown = "".join(each.in_page(with_text=False) for each in self.pictures)
        words = "".join(f'<p style="max-width:720px;margin:2px 0">{escape(line)}</p>' for line in self.below)
        text = f"<details><summary>As text</summary><pre>{escape(repr(self))}</pre></details>"
        page = f'<div style="{SIDE_BY_SIDE}">{shown}</div>{words}'
        return {"text/html": f"{marked_html(page, self.recorded)}{text}", "text/plain": repr(self)}


@dataclass(frozen=True)
class Measure(Generic[T]):
    """One chart: its heading, a function that returns a run's value (or None), and the value's format."""

    heading: str
    value: Callable[[T], float | None]
    as_text: Callable[[float], str]
    others: Collection[float] = ()


def count(value: float) -> str:
    """Format a number with thousands separators and no decimals."""
    return f"{value:,.0f}"


def percent(share: float) -> str:
    return f"{share:.0%}"


def bar_charts(
    results: Mapping[str, T | Notice],
    measures: Sequence[Measure[T]],
    below: Sequence[str] = (),
    reference: Mapping[str, T] | None = None,
    mark: str = "",
) -> Charts | Notice:
    """Return a chart for each measure, or the first `Notice` among the results.

    If some measures differ, a line of text names those with the same value in all results. Lines across the bars show
    the `reference`.
    """
    known: dict[str, T] = {}
    for name, result in results.items():
        if isinstance(result, Notice):
            return result
        known[name] = result
    draw = partial(chart, known, reference or {})
    differ = [each for each in measures if len(set(texts_of(each, known).values())) > 1]
    differ = differ or [each for each in measures if any(map(each.value, known.values()))]
    same = [f"{each.heading} {next(iter(texts_of(each, known).values()))}" for each in measures if each not in differ]
    words = [f"The same in all: {', '.join(same)}."] if same else []
    rows = {name: {each.heading: texts_of(each, known)[name] for each in measures} for name in known}
    return Charts([draw(each) for each in differ], [*words, *below], mark or first_mark(known.values()), rows)


def chart(known: Mapping[str, T], reference: Mapping[str, T], measure: Measure[T]) -> Picture:
    values, marks = ({name: measure.value(each) for name, each in some.items()} for some in (known, reference))
    return bars(
        measure.heading,
        {name: value for name, value in values.items() if value is not None},
        texts_of(measure, known),
        others=measure.others,
        marks={name: value for name, value in marks.items() if value is not None and name in known},
        as_text=measure.as_text,
    )


def texts_of(measure: Measure[T], known: Mapping[str, T]) -> dict[str, str]:
    """Return a measure of each result as text, or a dash if it has no value."""
    values = {name: measure.value(result) for name, result in known.items()}
    return {name: "-" if value is None else measure.as_text(value) for name, value in values.items()}


def waits(runs: Mapping[str, HasRecording | Notice]) -> Charts | Notice:
    """Draw the waiting and computed requests of each run, or return the first `Notice` among the runs."""
    key = "Outlined: waiting. Hatched: the prompt is computed. Full: a token of the answer in each step."
    return drawn(wait_strip, runs, key)


def latencies(runs: Mapping[str, HasRecording | Notice]) -> Charts | Notice:
    """Draw how each request's time was spent in each run, or return the first `Notice` among the runs."""
    key = (
        "Outlined: in the queue. In colour: the request's own tokens, hatched if of its prompt. Grey: tokens of others "
        "in its steps. Red: after a preemption. Time is counted in tokens that the engine computes."
    )
    return drawn(latency_bars, runs, key)


def drawn(
    draw: Callable[[Recording, str, float], Picture], runs: Mapping[str, HasRecording | Notice], key: str
) -> Charts | Notice:
    pictures = []
    for name, run in runs.items():
        if isinstance(run, Notice):
            return run
        pictures.append(draw(run.recording, name, SMALL_WIDTH if len(runs) > 2 else WIDE))
    return Charts(pictures, [key], first_mark(runs.values()))


def request_bars(run: ChatRun | Notice) -> Charts | Notice:
    """Return charts of each request's output tokens, preemptions and tokens from the cache."""
    if isinstance(run, Notice):
        return run
    info, metrics = run.recording.info, [output.metrics for output in run.outputs.values()]
    indices = {info.label(request_id): place for place, request_id in enumerate(info.titles)}
    counts = {
        "output tokens": [each.num_output_tokens for each in metrics],
        "preemptions": [each.num_preemptions for each in metrics],
        "tokens from the cache": [each.num_cached_tokens for each in metrics],
    }
    by_name = {heading: dict(zip(indices, values, strict=True)) for heading, values in counts.items()}
    pictures = [bars(heading, each, in_unit(each, ""), indices=indices) for heading, each in by_name.items()]
    return Charts(pictures, recorded=first_mark([run]))


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
    """Return charts of named runs' figures, or the first `Notice` among the runs.

    If `first_token` names a request, the step of its first token is also shown.
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
