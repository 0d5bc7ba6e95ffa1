"""Data structures of phase 9: the tree of a regex, its automata, and the vocabulary as a trie."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import NamedTuple

START = 0
TERMINATED = -1  # the state after an end-of-text token
MAX_POSITIONS = 4_000
MAX_FOLLOWS = 100_000
MAX_DFA_STATES = 4_000


class Group(NamedTuple):
    """A choice of `options` (sequences), repeated `low` to `high` times; without a limit if `high` is None."""

    options: tuple[tuple["Node", ...], ...]
    low: int = 1
    high: int | None = 1


Node = frozenset[int] | Group  # the tree of a regex: a set of bytes to match, or a group


@dataclass(slots=True)
class Nfa:
    """The positions of a regex that read a byte (Glushkov's automaton).

    Position 0 is the start and reads nothing. Position p reads one of the bytes `reads[p]`; after it one of the
    positions `follows[p]` reads the next byte. The text may end after any position in `ends`. `num_follows` counts the
    pairs added to `follows`, duplicates included.
    """

    reads: list[frozenset[int]] = field(default_factory=lambda: [frozenset()])
    follows: list[set[int]] = field(default_factory=lambda: [set()])
    ends: set[int] = field(default_factory=set)
    num_follows: int = 0


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton. State 0 is the start; `transitions[state]` maps a byte to the next state.

    A byte without a transition cannot be read. The text may end in any state in `accepting`.
    """

    transitions: list[dict[int, int]]
    accepting: frozenset[int]


@dataclass(slots=True)
class TrieNode:
    """The tokens whose bytes lead from the root to this node, and its child for each next byte."""

    token_ids: list[int] = field(default_factory=list)
    children: dict[int, "TrieNode"] = field(default_factory=dict)


def build_trie(token_bytes: Sequence[bytes]) -> TrieNode:
    """Build the trie of a vocabulary from each token's bytes, keyed by token id. Control tokens have no bytes and are
    omitted."""
    root = TrieNode()
    for token_id, text in enumerate(token_bytes):
        node = root
        for byte in text:
            node = node.children.setdefault(byte, TrieNode())
        if text:
            node.token_ids.append(token_id)
    return root


def group_bytes(nfa: Nfa, alphabet: frozenset[int]) -> dict[int, list[int]]:
    """Group the bytes of an alphabet by the positions that read them; each group's key is its first byte."""
    reads, groups = set(nfa.reads), dict[tuple[bool, ...], list[int]]()
    for byte in sorted(alphabet):
        groups.setdefault(tuple(byte in one for one in reads), []).append(byte)
    return {group[0]: group for group in groups.values()}


class RegexPart(NamedTuple):
    """A part of a regex: whether it matches the empty text, and which positions read its first and last byte."""

    is_nullable: bool
    first: frozenset[int]
    last: frozenset[int]


NOTHING = RegexPart(True, frozenset(), frozenset())


def build_nfa(tree: Node) -> Nfa:
    """Build the automaton of a regex.

    Raises `ValueError` if it needs more than `MAX_POSITIONS` positions, or more than `MAX_FOLLOWS` pairs of consecutive
    positions.
    """
    nfa = Nfa()
    part = _build(nfa, tree)
    nfa.follows[START] |= part.first
    nfa.ends |= part.last | ({START} if part.is_nullable else set())
    return nfa


def _build(nfa: Nfa, node: Node) -> RegexPart:
    if isinstance(node, frozenset):
        position = len(nfa.reads)
        if position > MAX_POSITIONS:
            raise ValueError(
                f"the regex may have at most {MAX_POSITIONS:,} positions that read a byte, but it has more"
            )
        nfa.reads.append(node)
        nfa.follows.append(set())
        return RegexPart(False, frozenset({position}), frozenset({position}))
    # The group is copied as many times as it may occur; if there is no limit, the last copy loops.
    num_copies = max(node.low, 1) if node.high is None else node.high
    if not num_copies or not (one := _either(nfa, node.options)).first:
        return NOTHING  # an empty group is not copied: ((){1000}){1000} would make a million copies
    copies = [one, *(_either(nfa, node.options) for _ in range(num_copies - 1))]
    low = node.low
    if one.is_nullable and num_copies > 2:  # (x?){9} is x{0,9}: nullable copies would each lead to all later copies
        low, copies = 0, [copy._replace(is_nullable=False) for copy in copies]
    if node.high is None:
        _join(nfa, copies[-1], copies[-1])
    built = NOTHING
    for number, copy in reversed(list(enumerate(copies, start=1))):
        built = _join(nfa, copy, built)
        built = built._replace(is_nullable=built.is_nullable or number > low)
    return built


def _either(nfa: Nfa, options: Sequence[Sequence[Node]]) -> RegexPart:
    parts = [reduce(partial(_join, nfa), [_build(nfa, one) for one in option], NOTHING) for option in options]
    flags, firsts, lasts = zip(*parts, strict=True)
    return RegexPart(any(flags), frozenset().union(*firsts), frozenset().union(*lasts))


def _join(nfa: Nfa, left: RegexPart, right: RegexPart) -> RegexPart:
    nfa.num_follows += len(left.last) * len(right.first)
    if nfa.num_follows > MAX_FOLLOWS:
        raise ValueError(f"the regex has more than {MAX_FOLLOWS:,} pairs of adjacent positions; simplify it")
    for position in left.last:
        nfa.follows[position] |= right.first
    first = left.first | right.first if left.is_nullable else left.first
    last = right.last | left.last if right.is_nullable else right.last
    return RegexPart(left.is_nullable and right.is_nullable, first, last)
