"""Parses a regex into its tree. The regex must match a whole text, as UTF-8 bytes."""

import re
import string
from typing import NoReturn

from mini_vllm.electives.automaton import Group, Node

MAX_REPEAT, MAX_GROUPS, MAX_LENGTH = 1_000, 100, 40_000
CLASSES = {
    "d": frozenset(string.digits.encode()),
    "w": frozenset(f"{string.ascii_letters}{string.digits}_".encode()),
    "s": frozenset(b" \t\n\r\f\v"),
}
CLASS = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]?", re.DOTALL)
IN_CLASS = re.compile(r"\\.|\[|&&|--|~~|\|\|", re.DOTALL)
# Unsupported groups, keyed by their first characters; the first matching key is used.
GROUPS = {
    "?=": "look-aheads",
    "?!": "look-aheads",
    "?<=": "look-behinds",
    "?<!": "look-behinds",
    "?<": "named groups",
    "?P<": "named groups",
    "?'": "named groups",
    "?P=": "back-references",
    "?>": "atomic groups",
    "?(": "conditions",
    "?|": "branch resets",
    "?#": "comments",
    "?": "flags and recursion",
}
ESCAPES = {
    **dict.fromkeys("123456789gk", "back-references"),
    **dict.fromkeys("bB", "word boundaries"),
    **dict.fromkeys("AZzG", "anchors, because a whole text must match"),
    **dict.fromkeys("pPXhHRvVDWS", "such classes"),
    **dict.fromkeys("xuUNco0aef", "codes of characters; write the character itself"),
    **dict.fromkeys("QE", "quotations"),
}
REPETITIONS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _spans(*spans: str) -> tuple[Node, ...]:
    """Return a sequence of byte ranges; each span gives the first and the last byte."""
    return tuple(frozenset(range(ord(span[0]), ord(span[-1]) + 1)) for span in spans)


# A valid UTF-8 character of two to four bytes; shorter characters share their final bytes with longer ones.
_LAST = "\x80\xbf"
_FOUR = Group((_spans("\xf1\xf3", _LAST), _spans("\xf0", "\x90\xbf"), _spans("\xf4", "\x80\x8f")))
_THREE = Group(((_FOUR,), _spans("\xe1\xec"), _spans("\xee\xef")))
_TWO = Group(((_THREE, *_spans(_LAST)), _spans("\xc2\xdf"), _spans("\xe0", "\xa0\xbf"), _spans("\xed", "\x80\x9f")))
BEYOND_ASCII = (_TWO, *_spans(_LAST))


def _all_but(members: frozenset[int]) -> Node:
    return Group(((frozenset(range(128)) - members,), BEYOND_ASCII))


def literal(text: str) -> Node:
    return Group((tuple(frozenset({byte}) for byte in text.encode()),))


def parse_regex(text: str) -> Node:
    """Parse a regex of literals, `.`, classes, groups, `|`, `* + ? {m} {m,} {m,n}` and escapes; return its tree.

    The regex matches the same texts as Python's `re.fullmatch` with `re.ASCII`. Raises `ValueError` with the name and
    the position of any other syntax: anchors, look-around, back-references, lazy repetition.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a regex may have at most {MAX_LENGTH:,} characters, got {len(text):,}")
    if why := ambiguity(text):
        raise ValueError(why)
    parser = _Parser(text)
    tree = parser.either()
    return tree if parser.place == len(text) else parser.fail("')' closes no group")


def ambiguity(text: str) -> str | None:
    """Return where and why dialects would read a character class differently, or None if they agree."""
    for found in CLASS.finditer(text):
        if not found[0].startswith("["):
            continue
        if re.fullmatch(r"\[\^?:\^?\w+:\]", found[0]):
            return _at(text, found.start(), f"{found[0]} is no class of digits or letters; write [0-9] or [A-Za-z]")
        for inner in IN_CLASS.finditer(text, found.start() + 1, found.end()):
            if inner[0] == "[":
                why = "sets in a class, such as [:digit:], are not supported; a bracket itself is \\["
            elif not inner[0].startswith("\\"):
                why = f"set operations such as {inner[0]} are not supported; write \\{inner[0][0]}"
            else:
                continue
            return _at(text, inner.start(), why)
    return None


def _at(text: str, place: int, why: str) -> str:
    return f"regex {text!r}, character {place + 1}: {why}"


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.place, self.num_groups = text, 0, 0

    def fail(self, why: str) -> NoReturn:
        raise ValueError(_at(self.text, self.place, why))

    def take(self) -> str:
        if self.place == len(self.text):
            self.fail("the regex is incomplete")
        self.place += 1
        return self.text[self.place - 1]

    def took(self, expected: str) -> bool:
        is_there = self.text.startswith(expected, self.place)
        self.place += len(expected) * is_there
        return is_there

    def either(self) -> Group:
        options = [self.sequence()]
        while self.took("|"):
            options.append(self.sequence())
        return Group(tuple(options))

    def sequence(self) -> tuple[Node, ...]:
        parts: list[Node] = []
        while not self.text.startswith(("|", ")"), self.place) and self.place < len(self.text):
            part = self.atom()
            if (counts := self.repetition()) is not None:
                part = Group(((part,),), *counts)
                if (sign := self.text[self.place : self.place + 1]) and sign in "*+?{":
                    kind = {"?": "lazy repetition is not supported", "+": "possessive repetition is not supported"}
                    self.fail(f"{kind.get(sign, 'a repetition follows a repetition')}; put the first one in a group")
            parts.append(part)
        return tuple(parts)

    def repetition(self) -> tuple[int, int | None] | None:
        if not self.took("{"):
            counts = REPETITIONS.get(self.text[self.place : self.place + 1])
            self.place += counts is not None
            return counts
        inside, closing, _ = self.text[self.place :].partition("}")
        first, comma, last = inside.partition(",")
        if not closing or not inside.isascii() or not first.isdecimal() or not (last.isdecimal() or not last):
            self.fail("a repetition is {m}, {m,} or {m,n}; a brace itself is \\{")
        low, high = int(first), int(last) if last else None if comma else int(first)
        if not low <= (low if high is None else high) <= MAX_REPEAT:
            self.fail(f"a repetition must count upwards and to at most {MAX_REPEAT:,}, got {{{inside}}}")
        self.place += len(inside) + 1
        return low, high

    def atom(self) -> Node:
        match char := self.take():
            case "(":
                self.num_groups += 1
                if self.num_groups > MAX_GROUPS:
                    raise ValueError(
                        f"a regex may have at most {MAX_GROUPS} groups; to match a literal bracket, write \\("
                    )
                if self.text.startswith("?", self.place) and not self.took("?:"):
                    name = next(name for begin, name in GROUPS.items() if self.text.startswith(begin, self.place))
                    self.fail(f"{name} are not supported: of the groups that begin with (? there is only (?:...)")
                tree = self.either()
                return tree if self.took(")") else self.fail("the group is not closed")
            case "[":
                return self.char_class()
            case ".":
                return _all_but(frozenset(b"\n"))
            case "\\" if self.text[self.place : self.place + 1] in ("D", "W", "S"):
                return _all_but(CLASSES[self.take().lower()])
            case "\\":
                return one if isinstance(one := self.escaped(), frozenset) else literal(one)
            case "*" | "+" | "?" | "{" | "^" | "$":
                self.place -= 1
                self.fail("nothing to repeat" if char not in "^$" else f"{char} is not needed: a whole text must match")
        return literal(char)

    def escaped(self) -> str | frozenset[int]:
        """Read an escape after its backslash, and return the class or character that it stands for."""
        char = self.take()
        if char not in CLASSES and char not in "nrt" and char.isascii() and char.isalnum():
            self.fail(f"the escape \\{char} is not supported: there are no {ESCAPES.get(char, 'such escapes')}")
        return CLASSES.get(char, {"n": "\n", "r": "\r", "t": "\t"}.get(char, char))

    def char_class(self) -> Node:
        is_negated, members, others = self.took("^"), set[int](), list[Node]()
        while not self.took("]"):
            low = self.member()
            is_range = self.is_range()
            high = self.member() if is_range else low
            if isinstance(low, frozenset) and not is_range:
                members |= low
            elif isinstance(low, str) and isinstance(high, str) and low <= high and (high.isascii() or high == low):
                members |= set(range(ord(low), ord(high) + 1)) if high.isascii() else set()
                others += [] if high.isascii() else [literal(high)]
            else:
                self.fail("a range goes up from one ASCII character to another")
        if is_negated and others:
            self.fail("a class that begins with [^ names ASCII characters only")
        if not members and not others:
            self.fail("the class is empty; a bracket in a class is \\[ or \\]")
        listed = frozenset(members)
        return _all_but(listed) if is_negated else Group(((listed,), *((one,) for one in others)))

    def is_range(self) -> bool:
        return not self.text.startswith("-]", self.place) and self.took("-")

    def member(self) -> str | frozenset[int]:
        return char if (char := self.take()) != "\\" else self.escaped()
