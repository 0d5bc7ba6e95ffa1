"""The given parser and automaton match what `re` matches, and name the place of what they do not know."""

import random
import re

import pytest

from course.labtest.phase9_plays import random_regex
from mini_vllm.core.automaton import MAX_FOLLOWS, START, build_nfa, group_bytes
from mini_vllm.core.regex import MAX_LENGTH, parse_regex
from solutions.phase9_structured_output import next_positions

REGEXES = (
    r"[a-c]{2,4}x \d{3}-\d{4} [^a-y]{1,2} .{2} é+ [é—x] (|a)b [a-]+ \w+\.\s? [\d.]+ (a?){3} \D\S\W a{0}b \[\]\{ [\]^]?"
)
ALPHABET = "abcxyz19-. é—😀\n[]{^_" + "abcé" * 5


RANDOM = [random_regex(random.Random(seed)) for seed in range(60)]


@pytest.mark.parametrize(
    "regex",
    [
        *REGEXES.split(),
        *RANDOM,
        "x(ab|c)+d?",
        "",
        "(a?b*){2,3}c",
        "(a?|){2,}b",
        "((){9}a?){3}",
        "(a?){0}b",
        "((){2}|b){2}",
        "(?:a|)*b{2,}",
        "[^^]",
        r"[\]\-a]+",
    ],
)
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


@pytest.mark.parametrize(
    ("regex", "num_follows"),
    [("((((){1000}){1000}){1000}){1000}", 0), ("(a?){1000}", 999), ("(a*b*c*){300}", 9 * 299 + 6 * 300)],
)
def test_copies_that_may_be_empty_cost_no_more_than_others(regex: str, num_follows: int) -> None:
    """Written out one by one the first takes years, and the others have hundreds of thousands of follows."""
    nfa = build_nfa(parse_regex(regex))
    assert sum(map(len, nfa.follows[START + 1 :])) == num_follows


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("a{1}" * 10_001, f"at most {MAX_LENGTH:,} characters, got 40,004"),
        ("a?" * 500, f"more than {MAX_FOLLOWS:,} pairs"),
        (f"({'|'.join('abc' * 200)})*", f"more than {MAX_FOLLOWS:,} pairs"),
    ],
)
def test_what_would_take_long_is_refused(regex: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        build_nfa(parse_regex(regex))


def test_a_bracket_that_opens_no_group_is_not_counted_as_one() -> None:
    for regex in ("(a)" * 100, r"\(" * 101, "[(]" * 101, "|".join([re.escape("(x)")] * 101)):
        parse_regex(regex)
    with pytest.raises(ValueError, match="at most 100 groups"):
        parse_regex("(a)" * 101)


def test_bytes_that_are_read_at_the_same_places_are_one() -> None:
    nfa = build_nfa(parse_regex("[a-z]x|[x-z]"))
    groups = group_bytes(nfa, frozenset(b"abcxyz0"))
    assert groups == {ord("0"): [ord("0")], ord("a"): [*b"abc"], ord("x"): [ord("x")], ord("y"): [*b"yz"]}
