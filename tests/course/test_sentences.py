"""Sentences in the clean areas follow the rules of `docs/contributing.md` that a program can check."""

import re
from collections.abc import Sequence
from datetime import date

import pytest

from mini_vllm_labs.upkeep.sentences import draw, sentences

# Generated pages, quoted text and printed help are not checked.
CLEAN = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "lab.py", "conftest.py", "mini_vllm"),
    *("labs", "mini_vllm_labs", "notebooks", "solutions", "tests"),
)
NOT_YET = re.compile(r"docs/(commands|what-a-year-changed|benchmarks)\.md|mini_vllm_labs/runs/parity/.*\.md")
KINDS = ("page", "handout", "notebook", "docstring", "comment")
MESSAGES = ("error", "hint")  # clean everywhere
PHRASES = {
    "is asked of": r"\b(?:is|are|was|were) asked of\b",
    "in other words than": r"\bin other words than\b",
    "lie, for data": r"\b(?:lie|lies|lay)\b(?! (?:to|out|down)\b)",
    "the one that": r"\bthe ones? (?:that|which|who)\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "bear": r"(?<!small )(?<!the )\bbears?\b",
    "of its own": r"\bof (?:my|your|his|its|our|their) own\b",
    "is no X": r"(?<!here )\b(?:is|are|was|were) no (?!more\b|\w+er\b)\w+",
}
MAX_WORDS = 30
MAX_WORDS_OF_A_FIRST_SENTENCE = 20


def num_words(sentence: str) -> int:
    return len(re.sub(r"`[^`]*`", "x", sentence).split())


def faults(sentence: str, is_first: bool = False) -> Sequence[str]:
    found = [name for name, pattern in PHRASES.items() if re.search(pattern, sentence)]
    most = MAX_WORDS_OF_A_FIRST_SENTENCE if is_first else MAX_WORDS
    return [*found, *([f"more than {most} words"] if num_words(sentence) > most else [])]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("No text is asked of the model.", ["is asked of"]),
        ("It says so in other words than the page.", ["in other words than"]),
        ("K and V lie in blocks.", ["lie, for data"]),
        ("Use the one that computes.", ["the one that"]),
        ("Once that is mended, go on.", ["mend"]),
        ("The queue bears no name.", ["bear"]),
        ("Each runs in a process of its own.", ["of its own"]),
        ("The body is no JSON.", ["is no X"]),
        ("There is no queue, it is no longer used, and you lay out its place.", []),
        ("word " * 30, []),
        ("word " * 31, ["more than 30 words"]),
        ("`a long piece of code` " * 30, []),
    ],
)
def test_each_rule_finds_its_fault_alone(sentence: str, expected: list[str]) -> None:
    assert faults(sentence) == expected


def test_first_sentences_are_shorter() -> None:
    assert [faults("word " * number, is_first=True) for number in (20, 21)] == [[], ["more than 20 words"]]


def test_clean_areas_stay_clean() -> None:
    found = list(sentences(*CLEAN))
    assert len(found) > 5_000, "the search finds nothing any more"
    wrong = {
        f"{one.path}: {'; '.join(faults(one.text, one.is_first))}: {one.text}"
        for one in found
        if one.kind in KINDS and not NOT_YET.match(one.path) and faults(one.text, one.is_first)
    }
    assert wrong == set()


def test_hints_and_errors_are_clean_everywhere() -> None:
    found = [one for one in sentences("labs", "mini_vllm", "mini_vllm_labs", "solutions") if one.kind in MESSAGES]
    assert len(found) > 2_000, "the search finds nothing any more"
    assert {f"{one.path}: {'; '.join(faults(one.text))}: {one.text}" for one in found if faults(one.text)} == set()


def test_a_draw_is_the_same_on_a_day_and_has_every_kind() -> None:
    found = list(sentences("labs/phase1_scheduler_step", "mini_vllm_labs/grading/labtest/phase1.toml", "notebooks"))
    drawn = draw(found, 2, date(2026, 11, 29))
    assert drawn == draw(found[::-1], 2, date(2026, 11, 29)) != draw(found, 2, date(2026, 11, 30))
    kinds = ("comment", "docstring", "error", "handout", "hint", "notebook")
    assert [one.kind for one in drawn] == [kind for kind in kinds for _ in range(2)]
