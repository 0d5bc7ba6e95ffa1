"""Reads the cards in `cards.toml`, with answers from `figures.json`, and exports them to Anki."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import ALL_NAMES
from mini_vllm.release_rules import change

CARDS, FIGURES = (Path(__file__).with_name(name) for name in ("cards.toml", "figures.json"))
HEADER = "#separator:tab\n#html:true\n#tags column:3\n"
"""The lines that Anki's importer reads: fields are HTML between tabs, and the third has tags."""


@dataclass(frozen=True)
class Flashcard:
    """A question and its answer, with a `topic` such as `phase 1 scheduler step`."""

    topic: str
    question: str
    answer: str


def all_cards() -> list[Flashcard]:
    """Return all cards, in order of phase. Raises `KeyError` for a check without a recorded figure."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    return [
        Flashcard(topic_of(key), card["question"], answer_of(card, figures[figure_of(key, card)]))
        for key, card in written_cards()
    ]


def answer_of(card: dict[str, str], figure: Any) -> str:
    """Return a card's answer, followed by the rule change that the card names as `newer`."""
    answer = card["answer"].format(it=figure)
    return f"{answer}\n{change(card['newer'])}" if "newer" in card else answer


def written_cards() -> list[tuple[str, dict[str, str]]]:
    """Return each card as written in the file, with its module of checks, such as `phase1`."""
    groups: dict[str, list[dict[str, Any]]] = tomllib.loads(CARDS.read_text(encoding="utf-8"))
    return [(key, card) for key, group in groups.items() for card in group]


def figure_of(key: str, card: dict[str, str]) -> str:
    """Return the name of a card's figure, built from its module and its check."""
    return f"{key}: {card['check']}"


def topic_of(key: str) -> str:
    number = key.removeprefix("phase")
    return f"phase {number} {ALL_NAMES[int(number) - 1]}" if number.isdecimal() else key


def anki(cards: Sequence[Flashcard]) -> str:
    """Return the cards as text for Anki's import, with question, answer and tags on one line per card."""
    return HEADER + "".join(
        "\t".join([field(card.question), field(card.answer), f"mini-vllm {card.topic.replace(' ', '-')}"]) + "\n"
        for card in cards
    )


def field(text: str) -> str:
    return "<br>".join(escape(text).replace("\t", " ").splitlines())
