"""The given parser and automaton match the same words as `re`, and errors name unsupported syntax."""

import random
import re
import warnings

import pytest

from mini_vllm.electives.automaton import MAX_FOLLOWS, START, Nfa, build_nfa, group_bytes
from mini_vllm.electives.regex import MAX_LENGTH, parse_regex
from mini_vllm_labs.grading.plays.phase9_plays import random_regex
from solutions.phase9_structured_output import next_positions

REGEXES = (
    r"[a-c]{2,4}x \d{3}-\d{4} [^a-y]{1,2} .{2} é+ [é—x] (|a)b [a-]+ \w+\.\s? [\d.]+ (a?){3} \D\S\W a{0}b \[\]\{ [\]^]?"
)
ALPHABET = "abcxyz19-. é—😀\n[]{^_" + "abcé" * 5


def accepts(nfa: Nfa, text: str) -> bool:
    positions = frozenset({START})
    for byte in text.encode():
        positions = next_positions(nfa, positions, byte)
    return bool(positions & nfa.ends)


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
def test_a_regex_matches_the_same_texts_as_re(regex: str) -> None:
    rng, nfa = random.Random(regex), build_nfa(parse_regex(regex))
    for text in ("".join(rng.choices(ALPHABET, k=rng.randrange(7))) for _ in range(400)):
        assert accepts(nfa, text) == bool(re.fullmatch(regex, text, re.ASCII)), (regex, text)


@pytest.mark.parametrize(
    ("regex", "place"),
    [("a**", 3), ("(a", 3), ("a)", 2), ("[^é]", 5), ("x{2", 3), ("x{3,2}", 3), ("^a", 1), ("a+?", 3), ("(?=a)", 2),
     (r"a\b", 4), (r"\1", 3), ("[z-a]", 5), ("*", 1), ("a{1001}", 3), ("[a-é]", 5), ("a\\", 3), ("[]", 3), ("[a", 3)],
)  # fmt: skip
def test_unknown_syntax_is_refused_with_its_position(regex: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"character {place}: "):
        parse_regex(regex)


NAMES = {
    "character 10: sets in a class, such as [:digit:]": [r"[a-z]{2}[[:digit:]]", r"[^éa]\[[a[.-.]]", "[-+*/%0-9[]]"],
    "set operations such as && are not supported; write \\&": ["[a-z&&[^x]]", "[a&&b]"],
    "set operations such as -- ": ["[--]", "[a--b]", "[+--/]"],
    "set operations such as ~~ ": ["[a~~b]"],
    "set operations such as || ": ["[a||b]"],
    "is no class of digits or letters": ["[:digit:]", "x[^:alpha:]", "[:^word:]+"],
    "the class is empty": ["[]a]", "[^]a]", "[]", "[^]"],
    "a range goes up": [r"[\w-\w]", r"[\d-z]", r"[a-\d]"],
    "no back-references": [r"(a)\1", r"\g{1}", r"\k<a>"],
    "no word boundaries": [r"\ba", r"a\B"],
    "no anchors": [r"\Aa", r"a\Z", r"a\z", r"\Ga"],
    "is not needed": ["^a", "a$", "a^b", "(a$)|b", "[a]^"],
    "no such classes": [r"\pL", r"\p{Lu}", r"\P{Lu}", r"\h", r"\R", r"\X", r"\V", r"[\D]", r"[\s\S]"],
    "no codes of characters": [r"\x41", r"\u0041", r"\U00000041", r"\N{DASH}", r"\cA", r"\0", r"\o{1}", r"\a", r"\f"],
    "no quotations": [r"\Qa.b\E", r"\E"],
    "look-aheads are": ["(?=a)", "a(?!b)"],
    "look-behinds are": ["(?<=a)b", "(?<!a)b"],
    "named groups are": ["(?P<a>b)", "(?<a>b)", "(?'a'b)"],
    "back-references are": ["(?P=a)"],
    "atomic groups": ["(?>a)"],
    "conditions": ["(?(1)a|b)"],
    "branch resets are": ["(?|a|b)"],
    "comments": ["(?#a)b"],
    "flags and recursion": ["(?i)a", "(?x) a", "(?i:a)", "(?R)", "(?1)", "(?&a)", "(?P>a)", "(?-i)a"],
    "lazy repetition": ["a*?", "a{2}?", "a??"],
    "possessive repetition": ["a*+", "a++", "a{2}+", "a?+"],
    "a repetition is": ["a{,3}", "a{", "a{b}", "a{1, 2}", "a{٣}", "a{-1}", "a{1,2"],
    "nothing to repeat": ["(*UTF8)a", "+a", "a|*b", "{2}"],
}


@pytest.mark.parametrize(("name", "regex"), [(name, regex) for name, some in NAMES.items() for regex in some])
def test_syntax_of_other_dialects_is_refused_by_name(name: str, regex: str) -> None:
    with pytest.raises(ValueError, match=re.escape(name)):
        parse_regex(regex)


PIECES = [*r"aab09-.é\n[](){}|*+?^$&~:,!P<>=i \ud_", "[a-c]", "[^a]", "{2}", "{,2}", "{1,2}", "{٣}", "[:", ":]",
          "[[:digit:]]", "--", "&&", "~~", "||", r"\d", r"\D", r"\w", r"\s", r"\b", r"\]", r"\-", r"\<", r"\.", "(?:",
          "(?", "[]", "[^]", "[a", "-]", "z]", "9]", "[\\d-", "(a|b)", r"\_", r"\é", "\\\n"]  # fmt: skip


def word_of(nfa: Nfa, rng: random.Random) -> str:
    """Return a text that the automaton accepts, from a random walk that stops at some accepting state."""
    position, text = START, bytearray()
    while not (position in nfa.ends and (rng.random() < 0.3 or not nfa.follows[position])):
        position = rng.choice(sorted(nfa.follows[position]))
        text.append(rng.choice(sorted(nfa.reads[position])))
    return text.decode()


def test_accepted_syntax_means_the_same_as_in_python() -> None:
    """The automaton and `re` accept the same words and reject the same near misses, and `re` gives no warning."""
    rng, num_accepted = random.Random(0), 0
    while num_accepted < 1_500:
        regex = "".join(rng.choices(PIECES, k=rng.randrange(1, 9)))
        try:
            nfa = build_nfa(parse_regex(regex))
        except ValueError:
            continue
        num_accepted += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(regex, re.ASCII)
        for _ in range(6):
            text = word_of(nfa, rng)
            assert compiled.fullmatch(text), (regex, text)
            near = "".join(rng.choice((char, char, "", rng.choice(regex + ALPHABET))) for char in text + "a")
            assert accepts(nfa, near) == bool(compiled.fullmatch(near)), (regex, near)


@pytest.mark.parametrize(
    ("regex", "num_follows"),
    [("((((){1000}){1000}){1000}){1000}", 0), ("(a?){1000}", 999), ("(a*b*c*){300}", 9 * 299 + 6 * 300)],
)
def test_copies_that_may_be_empty_cost_no_more_than_others(regex: str, num_follows: int) -> None:
    """With each copy written out, the first regex takes years, and the others have hundreds of thousands of
    transitions."""
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
def test_regexes_that_would_take_long_are_refused(regex: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        build_nfa(parse_regex(regex))


def test_a_bracket_that_opens_no_group_is_not_counted_as_one() -> None:
    for regex in ("(a)" * 100, r"\(" * 101, "[(]" * 101, "|".join([re.escape("(x)")] * 101)):
        parse_regex(regex)
    with pytest.raises(ValueError, match="at most 100 groups"):
        parse_regex("(a)" * 101)


def test_bytes_read_at_the_same_positions_form_one_group() -> None:
    nfa = build_nfa(parse_regex("[a-z]x|[x-z]"))
    groups = group_bytes(nfa, frozenset(b"abcxyz0"))
    assert groups == {ord("0"): [ord("0")], ord("a"): [*b"abc"], ord("x"): [ord("x")], ord("y"): [*b"yz"]}
