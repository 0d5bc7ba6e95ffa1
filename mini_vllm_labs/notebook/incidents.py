"""Turns the incident game into a deck of cards: the page at 03:10, four knobs, and the runs that decide."""

from typing import TYPE_CHECKING

from mini_vllm import Lineup
from mini_vllm_labs.notebook.claims.decide import kept_deck
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.predictions import Predictions
from mini_vllm_labs.pictures.bars import bars
from mini_vllm_labs.pictures.prediction import Card, Question
from mini_vllm_labs.simulation.incidents import Runs, incidents
from mini_vllm_labs.simulation.summary import Summary

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.prediction.widgets import Deck


def incident_deck(lab: Lab, guess: Predictions, seed: int = 0) -> "Deck | Notice":
    """Return a seed's ten incidents as cards, decided by runs of the lab's scheduler; save the answers."""
    played = lab.run(run_incidents, seed)
    if isinstance(played, Notice):
        return played
    runs = [
        Runs(incident, before, after, waited)
        for incident, ((before, *after), waited) in zip(incidents(seed), played, strict=True)
    ]
    return kept_deck([card_of(one) for one in runs], guess)


def run_incidents(seed: int, lineup: Lineup) -> list[tuple[list[Summary], dict[str, float]]]:
    """Run each of a seed's incidents as paged and again after turning each knob, and find out why requests waited."""
    played = [incident.run(lineup) for incident in incidents(seed)]
    return [([runs.before, *runs.after], dict(runs.waited)) for runs in played]


def card_of(runs: Runs) -> Card:
    """Build an incident's card; its picture shows the figure that triggered the page, before and after each knob."""
    incident, figure = runs.incident, runs.figure
    options = tuple(f"{number}: {knob}" for number, knob in enumerate(incident.knobs, start=1))
    names = ["as it was", *(f"knob {number}" for number in range(1, len(options) + 1))]
    shown = dict(zip(names, [runs.before, *runs.after], strict=True))
    texts = {name: figure.shown(summary) for name, summary in shown.items()}
    picture = bars(incident.paged, {name: figure.of(summary) for name, summary in shown.items()}, texts)
    lines = [f"knob {option}: {texts[name]}" for name, option in zip(names[1:], options, strict=True)]
    return Card(
        incident.title,
        runs.symptom(),
        "; ".join(f"{name} {text}" for name, text in runs.figures().items()) + ".",
        # Answers are stored under the question's text, because they depend on the seed.
        Question(f"Which knob (seed {incident.experiment.seed})?", "which knob", "choice", options),
        options[runs.best],
        runs.lesson(),
        "\n".join([f"as it was: {texts['as it was']}", *lines]),
        [picture],
    )
