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
ALPHABET = "abcxyz19-. é—😀\n[]{^_" + "abcé" * 5


RANDOM = [random_regex(random.Random(seed)) for seed in range(60)]


@pytest.mark.parametrize("regex", [*REGEXES.split(), *RANDOM, "x(ab|c)+d?", "", "(?:a|)*b{2,}", "[^^]", r"[\]\-a]+"])
def test_matches_what_re_matches(regex: str) -> None:
    rng, nfa = random.Random(regex), build_nfa(parse_regex(regex))
    for text in ("".join(rng.choices(ALPHABET, k=rng.randrange(7))) for _ in range(400)):
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
