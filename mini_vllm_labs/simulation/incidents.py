"""The incident game: a figure is bad at 03:10, and simulations determine which of four knobs to turn."""

import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from mini_vllm import Lineup
from mini_vllm_labs.simulation.experiment import Experiment, parse_sweep
from mini_vllm_labs.simulation.relief import waits_sentence
from mini_vllm_labs.simulation.served import Slo
from mini_vllm_labs.simulation.summary import Summary, summarize
from mini_vllm_labs.simulation.waiting import WaitingTimes

CARDS = Path(__file__).with_suffix(".toml")
NUM_REQUESTS = 300
POINTS = 10  # per incident
LOAD = ("workload", "rate", "num_requests", "gpu", "model", "num_gpus")  # these are named elsewhere in the sentence


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a run: its key in a summary, and a function that formats it."""

    path: str
    text: Callable[[float], str]

    def of(self, summary: Summary) -> float:
        return float(attrgetter(self.path)(summary))

    def shown(self, summary: Summary) -> str:
        return self.text(self.of(summary))


def as_seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else as_ms(value)


def as_ms(value: float) -> str:
    return f"{1e3 * value:.0f} ms" if value >= 0.0995 else f"{1e3 * value:.1f} ms"


def as_count(value: float) -> str:
    return f"{value:,.0f}"


FIGURES = {
    "median TTFT": Figure("time_to_first_token.p50", as_seconds),
    "p99 TTFT": Figure("time_to_first_token.p99", as_seconds),
    "median ITL": Figure("inter_token_latency.p50", as_ms),
    "p99 ITL": Figure("inter_token_latency.p99", as_ms),
    "at most running": Figure("most_running", as_count),
    "the number of preemptions": Figure("num_preemptions", as_count),
    "hits": Figure("hit_rate", "{:.0%}".format),
    "output tokens/s": Figure("output_tokens_per_second", as_count),
}


@dataclass(frozen=True, slots=True)
class Incident:
    """An experiment, the figure that triggered the page, and the knobs: each is a setting, a value and an
    explanation."""

    title: str
    time: str
    experiment: Experiment
    start: Mapping[str, str]
    paged: str
    knobs: Sequence[str]
    why: Mapping[str, str]

    def run(self, lineup: Lineup) -> "Runs":
        """Run the experiment unchanged, then with each knob turned."""
        waits = WaitingTimes()
        before = summarize(self.experiment.run(lineup, waits=waits), Slo())
        after = [summarize(turn(self.experiment, knob).run(lineup), Slo()) for knob in self.knobs]
        return Runs(self, before, after, dict(waits.seconds))


@dataclass(frozen=True, slots=True)
class Runs:
    """An incident with its runs: one before any change, and one for each knob.

    `waited` contains the seconds during which requests got no tokens in the run before any change, keyed by the
    reason's name.
    """

    incident: Incident
    before: Summary
    after: Sequence[Summary]
    waited: Mapping[str, float]

    @property
    def figure(self) -> Figure:
        return FIGURES[self.incident.paged]

    @property
    def best(self) -> int:
        """The knob whose run has the lowest figure or, in a tie, the first."""
        return min(range(len(self.after)), key=lambda knob: self.figure.of(self.after[knob]))

    def points(self, knob: int) -> int:
        """Return the share of the best knob's improvement that `knob` achieves, as a number from 0 to 10."""
        worst, best = self.figure.of(self.before), self.figure.of(self.after[self.best])
        share = (worst - self.figure.of(self.after[knob])) / (worst - best) if worst > best else 0.0
        return round(POINTS * max(0.0, share))

    def figures(self) -> dict[str, str]:
        """Return all figures at the time of the page, keyed by name."""
        return {name.removeprefix("the number of "): figure.shown(self.before) for name, figure in FIGURES.items()}

    def symptom(self) -> str:
        """Return the text of the page: time, figure, load, and settings."""
        incident, experiment = self.incident, self.incident.experiment
        settings = ", ".join(f"{name} {value}" for name, value in incident.start.items() if name not in LOAD)
        return (
            f"{incident.time}, {incident.paged} is {self.figure.shown(self.before)}. {experiment.rate:g} requests a "
            f"second of {experiment.workload!r}, {experiment.model} on {experiment.num_gpus} x {experiment.gpu}"
            f"{f'; {settings}' if settings else ''}."
        )

    def lesson(self) -> str:
        """Return a sentence about the best knob, with its run's figures and what requests waited for before the
        change."""
        before, after, knob = self.before, self.after[self.best], self.incident.knobs[self.best]
        paged, now = self.figure.shown(before), self.figure.shown(after)
        why = self.incident.why[knob] or f"{knob}: {self.incident.paged} goes from {{paged}} to {{now}}."
        itl = FIGURES["p99 ITL"]
        told = why.format(
            before=before, after=after, paged=paged, now=now, before_itl=itl.shown(before), after_itl=itl.shown(after)
        )
        return f"{told} Before that {waits_sentence(self.waited) if self.waited else 'no request waited.'}"


def turn(experiment: Experiment, knob: str) -> Experiment:
    """Return the experiment after turning one knob, given as `setting=value`."""
    name, (value,) = parse_sweep(knob)
    return experiment.with_setting(name, value)


def incidents(seed: int) -> list[Incident]:
    """Return ten incidents; `seed` determines their order, the order of their knobs, and the requests.

    Raises `ValueError` for a seed below 0.
    """
    if seed < 0:
        raise ValueError(f"seed must be an integer of at least 0, got {seed}")
    rng = random.Random(seed)
    cards: list[dict[str, Any]] = tomllib.loads(CARDS.read_text(encoding="utf-8"))["incidents"]
    rng.shuffle(cards)
    return [drawn(card, seed, rng) for card in cards]


def drawn(card: Mapping[str, Any], seed: int, rng: random.Random) -> Incident:
    experiment = replace(Experiment(seed=seed), num_requests=NUM_REQUESTS)
    for name, value in card["start"].items():
        experiment = experiment.with_setting(name, value)
    knobs = rng.sample(list(card["knobs"]), len(card["knobs"]))
    time = f"03:{rng.randrange(60):02}"
    return Incident(card["title"], time, experiment, card["start"], card["paged"], knobs, card["knobs"])
