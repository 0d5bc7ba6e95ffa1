"""The incident game as a deck of cards: the page at 03:10, four knobs, and the runs that decide."""

from typing import TYPE_CHECKING

from course.notebook.claims.decide import kept_deck
from course.notebook.lab import Lab
from course.notebook.notice import Notice
from course.notebook.predictions import Predictions
from course.simulator.incidents import Incident, Runs, incidents
from course.simulator.summary import Summary
from course.views.bars import bars
from course.views.prediction import Card, Question
from mini_vllm import Lineup

if TYPE_CHECKING:
    from course.views.prediction.widgets import Deck


def incident_deck(lab: Lab, guess: Predictions, seed: int = 0) -> "Deck | Notice":
    """Return the ten incidents of a seed as cards, decided by runs of the lab's scheduler; answers are kept."""
    played = lab.run(run_incidents, seed)
    if isinstance(played, Notice):
        return played
    runs = [Runs(incident, before, after) for incident, (before, *after) in zip(incidents(seed), played, strict=True)]
    return kept_deck([card_of(one) for one in runs], guess)


def run_incidents(seed: int, lineup: Lineup) -> list[list[Summary]]:
    """Return for each incident of a seed its run as it was paged and after each knob."""
    return [summaries(incident, lineup) for incident in incidents(seed)]


def summaries(incident: Incident, lineup: Lineup) -> list[Summary]:
    runs = incident.run(lineup)
    return [runs.before, *runs.after]


def card_of(runs: Runs) -> Card:
    incident, figure = runs.incident, runs.figure
    shown = {"as it was": runs.before, **dict(zip(incident.knobs, runs.after, strict=True))}
    texts = {name: figure.shown(summary) for name, summary in shown.items()}
    picture = bars(incident.paged, {name: figure.of(summary) for name, summary in shown.items()}, texts)
    points = [f"{runs.points(knob)} of 10 points" for knob in range(len(incident.knobs))]
    lines = [f"{name}: {texts[name]}, {earned}" for name, earned in zip(incident.knobs, points, strict=True)]
    return Card(
        incident.title,
        runs.symptom(),
        "; ".join(f"{name} {text}" for name, text in runs.figures().items()) + ".",
        Question("Which knob?", "which knob", "choice", incident.knobs),
        incident.knobs[runs.best],
        runs.lesson(),
        "\n".join([f"as it was: {texts['as it was']}", *lines]),
        [picture],
    )
