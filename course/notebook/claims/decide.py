"""The deck: every claim is played on the learner's engine, and becomes a card."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course.fresh.jobs import WorkloadRun, play_workload
from course.fresh.process import describe
from course.notebook.claims import blocks, numbers, preemption, prefix_cache, queues
from course.notebook.claims.claim import Claim, Setup
from course.notebook.lab import Lab
from course.notebook.notice import Notice
from course.notebook.predictions import NOT_SHOWN, Predictions
from course.notebook.run_facts import RunFacts
from course.terminal.step_line import LineWriter
from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.views.picture import Picture
from course.views.prediction import Answer, Card, checked_answer
from course.views.time_machine import run_strip
from mini_vllm.assembly.lineup import Lineup

if TYPE_CHECKING:
    from course.views.prediction.widgets import Deck


Played = Sequence[WorkloadRun] | str


def all_claims() -> list[Claim]:
    """Return the claims in the order of their cards."""
    return [*preemption.CLAIMS, *queues.CLAIMS, *blocks.CLAIMS, *prefix_cache.CLAIMS, *numbers.CLAIMS]


def setup_of(title: str) -> Setup:
    """Return the requests and the config of a claim's first run. Raises `ValueError` for a title without a run."""
    setups = {claim.title: setup for claim in all_claims() for setup in [*claim.setups.values()][:1]}
    if title not in setups:
        raise ValueError(f"there is no card {title!r} with a run of requests; there are {', '.join(setups)}")
    return setups[title]


def deck(lab: Lab, guess: Predictions) -> "Deck | Notice":
    """Return all claims as cards, decided by runs of the lab's engine; answers are kept with the predictions."""
    from course.views.prediction.widgets import Deck

    played = lab.run(play_claims)
    if isinstance(played, Notice):
        return played
    cards = [card_of(claim, played[claim.title]) for claim in all_claims()]
    said = {card.title: guess.kept.get(card.title, card.question) for card in cards}
    widget = Deck(cards, {title: answer for title, answer in said.items() if answer is not None})

    def keep(change: Mapping[str, Mapping[str, Answer]]) -> None:
        for card in cards:
            answer = change["new"].get(card.title)
            if answer != change["old"].get(card.title):
                guess.kept.put(card.title, {} if answer is None else {card.question: answer})

    widget.observe(keep, names="answers")
    return widget


def play_claims(lineup: Lineup) -> dict[str, Played]:
    """Play the runs of every claim; where the engine fails, its message is there in place of them."""
    return {claim.title: play_claim(claim, lineup) for claim in all_claims()}


def play_claim(claim: Claim, lineup: Lineup) -> Played:
    try:
        return [play_workload(setup.arrivals, setup.config, lineup) for setup in claim.setups.values()]
    except Exception as error:
        return describe(error)


def card_of(claim: Claim, played: Played) -> Card:
    """Return a claim with what its runs have shown."""
    truth: Answer | None
    pictures: Sequence[Picture]
    if claim.evidence is not None:
        truth, pictures, text = claim.evidence()
    elif isinstance(played, str):
        truth, pictures, text = None, (), played
    else:
        facts = [RunFacts(run) for run in played]
        truth = decided(claim, facts)
        named = list(zip(claim.setups, facts, strict=True))
        pictures = [run_strip(run.recording, name, looked_at(claim, run)) for name, run in named]
        text = "\n\n".join("\n".join([name, *step_lines(run.recording)]) for name, run in named)
    return Card(claim.title, claim.claim, claim.setup, claim.question, truth, claim.why, pictures, text)


def decided(claim: Claim, facts: Sequence[RunFacts]) -> Answer | None:
    """Return the true answer, or None if the runs do not show it."""
    assert claim.truth is not None
    try:
        return checked_answer(claim.question, claim.truth(*facts))
    except (*NOT_SHOWN, ValueError):
        return None


def looked_at(claim: Claim, run: RunFacts) -> int:
    """Return the step to look at, the last one if the run does not have it."""
    try:
        return min(claim.step(run), run.last_step)
    except LookupError:
        return run.last_step


def step_lines(recording: Recording) -> list[str]:
    """Return the lines as `mini-vllm trace` prints them to a pipe."""
    lines: list[str] = []
    state, writer = RunState(recording.info), LineWriter(lines.append)
    for record in recording.steps:
        state.advance(record)
        writer.add(state)
    writer.flush()
    return lines
