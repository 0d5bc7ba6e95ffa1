"""The given parser and automaton match what `re` matches, and name the place of what they do not know."""

import random
import re

import pytest

from course.labtest.phase9_plays import random_regex
from mini_vllm.core.automaton import START, build_nfa
from mini_vllm.core.regex import parse_regex
from solutions.phase9_structured_output import next_positions

REGEXES = (
    r"[a-c]{2,4}x \d{3}-\d{4} [^a-y]{1,2} .{2} é+ [é—x] (|a)b [a-]+ \w+\.\s? [\d.]+ (a?){3} \D\S\W a{0}b \[\]\{ [\]^]?"
)
ALPHABET = "abcxyz19-. é—😀\n[]{^_"


@pytest.mark.parametrize("regex", [*REGEXES.split(), "x(ab|c)+d?", "", "(?:a|)*b{2,}", "[^^]", r"[\]\-a]+"])
def test_matches_what_re_matches(regex: str) -> None:
    check(random.Random(regex), regex)


@pytest.mark.parametrize("seed", range(60))
def test_random_regexes_match_what_re_matches(seed: int) -> None:
    rng = random.Random(seed)
    check(rng, random_regex(rng))


def check(rng: random.Random, regex: str) -> None:
    nfa, texts = build_nfa(parse_regex(regex)), ["".join(rng.choices(ALPHABET, k=rng.randrange(7))) for _ in range(200)]
    for text in [*texts, *("".join(rng.choices("abcé", k=n % 7)) for n in range(200))]:
        positions = frozenset({START})
        for byte in text.encode():
            positions = next_positions(nfa, positions, byte)
        assert bool(positions & nfa.ends) == bool(re.fullmatch(regex, text, re.ASCII)), (regex, text)


@pytest.mark.parametrize(
    ("regex", "place"),
    [("a**", 3), ("(a", 3), ("a)", 2), ("[^é]", 5), ("x{2", 3), ("x{3,2}", 3), ("^a", 1), ("a+?", 3), ("(?=a)", 2),
     (r"a\b", 4), (r"\1", 3), ("[z-a]", 5), ("*", 1), ("a{1001}", 3), ("[a-é]", 5), ("a\\", 3), ("[]", 3), ("[a", 3)],
)  # fmt: skip
def test_what_is_unknown_is_refused_with_its_place(regex: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"character {place}: "):
        parse_regex(regex)


def test_a_regex_with_too_many_places_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 4,000 places"):
        build_nfa(parse_regex("(abcdefgh){1000}"))
