"""Recomputes every number in a handout, the README, a slide or the teachers' guide that can be recomputed."""

import ast
import codecs
import importlib
import re
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
LABS = ROOT / "labs"
DOCUMENTS = [
    *sorted(LABS.rglob("README.md")),
    *sorted((ROOT / "docs" / "decks").glob("*.md")),
    ROOT / "README.md",
    *((ROOT / "docs" / name) for name in ("teaching.md", "workshop.md", "public_bugs.md")),
]
CHECK = re.compile(r"<!--\s*check:\s*(.*?)\s*-->", re.DOTALL)
CODE = re.compile(r"`[^`]+`")
ITEM = re.compile(r"(-|\d+\.) ")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
NUM_CHARACTERS_BEFORE = 700


def name_of(path: Path) -> str:
    """Return the name of a handout's folder, or of a document elsewhere: `phase1_scheduler_step`, `teaching`."""
    return path.parent.name if path.is_relative_to(LABS) else path.stem.lower()


def checks() -> list[tuple[str, str, str]]:
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in CHECK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            before = text[max(0, match.start() - NUM_CHARACTERS_BEFORE) : match.start()]
            found.append((f"{name_of(path)}:{line}", match[1], CHECK.sub("", before)))
    return found


CHECKS = checks()


@pytest.mark.parametrize(("place", "expression", "before"), CHECKS, ids=[place for place, _, _ in CHECKS])
def test_every_claim_holds(place: str, expression: str, before: str) -> None:
    assert eval(expression, dict(namespace(place))) is True, f"{place}: {expression}"
    for number in numbers_claimed(expression):
        digits = re.search(rf"(?<![\d.,]){number:,}(?!\d)|(?<![\d.,]){number}(?!\d)", before)
        word = number < len(WORDS) and WORDS[number] in before.lower()
        assert digits or word, f"{place} checks {number}, but the text before does not state it"


def namespace(place: str) -> dict[str, object]:
    """Return the functions for the checks of one document: everything in `checks/phase1.py` for phase 1, and so on."""
    document = re.match(r"phase\d+|[a-z_]+", place)
    assert document is not None
    module = importlib.import_module(f"tests.handouts.checks.{document[0]}")
    return vars(module)


def numbers_claimed(expression: str) -> list[int]:
    comparison = ast.parse(expression, mode="eval").body
    assert isinstance(comparison, ast.Compare), f"a check compares: {expression}"
    claimed = comparison.comparators[-1]
    return [n.value for n in ast.walk(claimed) if isinstance(n, ast.Constant) and type(n.value) is int]


def test_every_handout_checks_something() -> None:
    handouts = {path.parent.name for path in LABS.glob("phase*/README.md")}
    assert handouts <= {place.split(":")[0] for place, _, _ in CHECKS}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_code_continues_on_the_next_line(path: Path) -> None:
    """A case's name, or a command, must stay on one line so that it can be found and copied."""
    blocks = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
    spans = [span for block in blocks if block.type == "inline" for span in CODE.findall(CHECK.sub("", block.content))]
    assert [span for span in spans if "\n" in span] == []


@pytest.mark.parametrize("path", sorted(LABS.glob("phase*/hints.rot13")), ids=name_of)
def test_no_sentence_of_a_hint_continues_as_a_list(path: Path) -> None:
    """A line of prose that begins with "- " or "1. " becomes a list item."""
    lines = codecs.decode(path.read_text(encoding="utf-8"), "rot13").splitlines()
    prose = [
        line for before, line in pairwise(lines) if ITEM.match(line) and before[:1].strip() and not ITEM.match(before)
    ]
    assert prose == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_check_breaks_a_paragraph(path: Path) -> None:
    """A line that begins with a comment ends a paragraph, and Markdown leaves the rest of the line unformatted."""
    blocks = [token for token in MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8")) if token.map]
    for block in (block for block in blocks if block.type == "html_block"):
        assert re.sub(r"<summary>.*?</summary>|<[^>]*>|<!--.*?-->|\s", "", CHECK.sub("", block.content)) == ""
    lines = path.read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        if line.lstrip().startswith("<!-- check") and before.strip():
            assert before.startswith(("```", "<!-- check")), f"{name_of(path)}: {line}"
