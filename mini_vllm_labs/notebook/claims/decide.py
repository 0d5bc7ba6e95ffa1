"""Builds the deck: the learner's engine decides every claim, and each claim becomes a card."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm import EngineConfig, Lineup
from mini_vllm.release_rules import change
from mini_vllm_labs.fresh.jobs import WorkloadRun, play_workload
from mini_vllm_labs.fresh.process import describe
from mini_vllm_labs.notebook.claims.claim import Claim, ClaimSetup
from mini_vllm_labs.notebook.claims.evidence import EVIDENCE
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.predictions import Predictions
from mini_vllm_labs.notebook.recall import Missed
from mini_vllm_labs.notebook.run_facts import RunFacts
from mini_vllm_labs.notebook.truths import fact, true_answer
from mini_vllm_labs.pictures.prediction import Answer, Card, Question
from mini_vllm_labs.pictures.terminal.step_line import LineWriter
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.prediction.widgets import Deck

CARDS, SEATS = "cards.toml", "seats.toml"
Played = Sequence[WorkloadRun] | str


@cache
def all_claims(file: str = CARDS) -> Sequence[Claim]:
    """Return the claims from a file in this folder, in order."""
    cards = tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    engine, named = EngineConfig(**cards.pop("engine")), cards.pop("requests")
    shared = {"options": cards.pop("options", ("true", "false"))}
    return [claim_of(subject, shared | card, engine, named) for subject, group in cards.items() for card in group]


def claim_of(subject: str, card: Mapping[str, Any], engine: EngineConfig, named: Mapping[str, Any]) -> Claim:
    """Build a claim from its card. With a `unit`, the answer is a number; otherwise, it is one of the `options`."""
    question, unit = card.get("question", "Is the claim true?"), card.get("unit", "")
    options = tuple(card["options"])
    asked = Question(question, subject, unit=unit) if unit else Question(question, subject, "choice", options)
    setups = {}
    for run in card.get("runs", ()):
        requests = named[run["requests"]] if isinstance(run["requests"], str) else run["requests"]
        arrivals = [request_of(**request) for request in requests]
        setups[run["name"]] = ClaimSetup(arrivals, replace(engine, **run.get("engine", {})))
    about = {part: card[part] for part in ("title", "claim", "setup", "why")}
    if "newer" in card:
        about["why"] += f"\n\n{change(card['newer'])}"
    return Claim(
        **about, question=asked, setups=setups, decided_by=card.get("decided_by", ""), step=card.get("step", "0")
    )


def request_of(id: str, prompt: str, max_tokens: int, step: int = 0, priority: int = 0) -> TimedRequest:
    """Build one of a card's requests. In `prompt`, `0-3` means the token ids 0 1 2 3, and `7x3` means 7 7 7."""
    token_ids = list[int]()
    for part in prompt.split():
        first, dash, last = part.partition("-")
        token, _, count = part.partition("x")
        token_ids += range(int(first), int(last) + 1) if dash else [int(token)] * int(count or 1)
    return TimedRequest(step, id, token_ids, max_tokens, priority)


def setup_of(title: str) -> ClaimSetup:
    """Return the requests and the config of a claim's first run. Raises `ValueError` if no claim with a run has this
    title."""
    setups = {claim.title: setup for claim in all_claims() for setup in [*claim.setups.values()][:1]}
    if title not in setups:
        raise ValueError(f"{title!r} is not a card that runs requests; choose from {', '.join(setups)}")
    return setups[title]


def deck(lab: Lab, guess: Predictions) -> "Deck | Notice":
    """Return all claims as cards, decided by runs of the lab's engine; save answers with the predictions."""
    played = lab.run(play_claims)
    if isinstance(played, Notice):
        return played
    return kept_deck([card_of(claim, played[claim.title]) for claim in all_claims()], guess)


def seats_deck(lab: Lab, guess: Predictions) -> "Deck | Notice":
    """Return six cards with the same picture (16 request slots, 5 running requests), each with a different cause."""
    played = lab.run(play_seats)
    if isinstance(played, Notice):
        return played
    return kept_deck([card_of(claim, played[claim.title], brief=False) for claim in all_claims(SEATS)], guess)


def kept_deck(cards: Sequence[Card], guess: Predictions) -> "Deck":
    """Return a deck of cards whose answers are saved with the predictions."""
    from mini_vllm_labs.pictures.prediction.widgets import Deck

    said = {card.title: guess.kept.get(card.title, card.question) for card in cards}
    answers = {title: answer for title, answer in said.items() if answer is not None}
    widget = Deck(cards, answers)
    note(cards, answers, guess)

    def keep(change: Mapping[str, Mapping[str, Answer]]) -> None:
        for card in cards:
            answer = change["new"].get(card.title)
            if answer != change["old"].get(card.title):
                guess.kept.put(card.title, {} if answer is None else {card.question: answer})
        note(cards, change["new"], guess)

    widget.observe(keep, names="answers")
    return widget


def note(cards: Sequence[Card], answers: Mapping[str, Answer], guess: Predictions) -> None:
    """Save wrong answers for later notebooks."""
    guess.missed.note(
        Missed(
            guess.notebook, card.title, card.question, answers[card.title], card.truth, card.claim, card.setup, card.why
        )
        for card in cards
        if card.truth is not None and card.title in answers
    )


def play_claims(lineup: Lineup) -> dict[str, Played]:
    """Execute the runs of every claim; if the engine fails, its error message replaces the runs."""
    return {claim.title: play_claim(claim, lineup) for claim in all_claims()}


def play_seats(lineup: Lineup) -> dict[str, Played]:
    return {claim.title: play_claim(claim, lineup) for claim in all_claims(SEATS)}


def play_claim(claim: Claim, lineup: Lineup) -> Played:
    try:
        return [play_workload(setup.arrivals, setup.config, lineup) for setup in claim.setups.values()]
    except Exception as error:  # a failing claim does not remove the others from the deck
        return describe(error)


def card_of(claim: Claim, played: Played, *, brief: bool = True) -> Card:
    card = partial(Card, claim.title, claim.claim, claim.setup, claim.question)
    if not claim.setups:
        truth, pictures, text = EVIDENCE[claim.title]()
        return card(truth, claim.why, text, pictures)
    if isinstance(played, str):
        return card(None, claim.why, played)
    facts = [RunFacts(run) for run in played]
    named = list(zip(claim.setups, facts, strict=True))
    films = [(name, time_machine(run.recording, brief=brief), looked_at(claim, run)) for name, run in named]
    text = "\n\n".join("\n".join([name, *step_lines(run.recording)]) for name, run in named)
    return card(true_answer(claim.question, claim.decided_by, facts), claim.why, text, films=films)


def looked_at(claim: Claim, run: RunFacts) -> int:
    """Return the step to show, or the last step if the run has no such step."""
    try:
        return min(int(fact(claim.step, [run])), run.last_step)
    except LookupError:
        return run.last_step


def step_lines(recording: Recording) -> list[str]:
    """Return the lines that `mini-vllm trace` would print to a pipe."""
    lines: list[str] = []
    state, writer = RunState(recording.info), LineWriter(lines.append)
    for record in recording.steps:
        state.advance(record)
        writer.add(state)
    writer.flush()
    return lines
