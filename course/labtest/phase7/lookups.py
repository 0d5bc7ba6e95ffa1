"""Checks of `propose_by_lookup`: the rule as it is written, and a text that counts what is read of it."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, SupportsIndex

from course.labtest.expect import difference_report, expect_equal, explained
from course.labtest.failure import Failed, Report
from course.labtest.phase7.answers import list_of
from course.labtest.phase7.identify import surviving, the_one_left
from course.labtest.phase7.lookup_mistakes import mistakes
from course.labtest.phase7.lookup_symptoms import (
    ALL_THAT_FOLLOW,
    RULE_OF_LOOKUP,
    Lookup,
    naive_lookup,
    symptom_of_lookup,
)
from course.views.text import counted

READS_PER_TOKEN = 100
Proposer = Callable[[list[int], int, int, int], object]


def lookup_report(phase7: ModuleType, lookup: Lookup) -> Report:
    """Return what is wrong with the answer to one call, empty if nothing is."""
    text = list(lookup.tokens)
    expected = naive_lookup(lookup)
    rule = ALL_THAT_FOLLOW if 0 < len(expected) < lookup.num_drafts else RULE_OF_LOOKUP
    with explained(lookup.describe().splitlines(), rule=rule):
        answer = phase7.propose_by_lookup(text, lookup.num_drafts, lookup.shortest, lookup.longest)
    yours = list_of(answer, "propose_by_lookup")
    if text != list(lookup.tokens):
        return difference_report(
            text,
            list(lookup.tokens),
            rule="propose_by_lookup only reads the text: it belongs to the request.",
            situation=f"{lookup.describe()}\nthe text after your call",
            hint="which of your operations changes a list in place (pop, remove, append, +=)?",
        )
    if yours == expected:
        return Report()

    ask = partial(asked, phase7.propose_by_lookup)
    found = the_one_left(lookup, ask, mistakes, mistakes_of(phase7.propose_by_lookup))
    rule, hint = found or symptom_of_lookup(lookup, yours)
    return difference_report(yours, expected, rule=rule, situation=lookup.describe(), hint=hint)


def asked(propose_by_lookup: Proposer, lookup: Lookup) -> list[int]:
    """Return the drafts that your function proposes."""
    answer = propose_by_lookup(list(lookup.tokens), lookup.num_drafts, lookup.shortest, lookup.longest)
    return list_of(answer, "propose_by_lookup")


@lru_cache(maxsize=8)
def mistakes_of(propose_by_lookup: Proposer) -> frozenset[int]:
    """Return the mistakes that answer like your function in 200 random cases."""
    rng = random.Random(1)
    return surviving([random_lookup(rng) for _ in range(200)], partial(asked, propose_by_lookup), mistakes)


def check_lookup(phase7: ModuleType, tokens: Sequence[int], num_drafts: int, shortest: int, longest: int) -> None:
    """Compare the answer to one call."""
    report = lookup_report(phase7, Lookup(tuple(tokens), num_drafts, shortest, longest))
    if report:
        raise Failed(report, report.parts)


def random_lookup(rng: random.Random) -> Lookup:
    """Return a text of few different tokens, so that much of it occurs twice."""
    num_kinds = rng.choice([1, 2, 2, 3, 3, 4, 9])
    tokens = tuple(rng.randrange(num_kinds) for _ in range(rng.randint(1, 24)))
    shortest = rng.randint(1, 3)
    return Lookup(tokens, rng.randint(1, 6), shortest, shortest + rng.randint(0, 3))


class CountedText(list[int]):
    """A text that counts how many of its tokens are read."""

    num_read = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.num_read += len(found) if isinstance(place, slice) else 1
        return found

    def __iter__(self) -> Iterator[int]:
        for token_id in super().__iter__():
            self.num_read += 1
            yield token_id

    def __reversed__(self) -> Iterator[int]:
        for token_id in super().__reversed__():
            self.num_read += 1
            yield token_id

    def __contains__(self, token_id: object) -> bool:
        self.num_read += len(self)
        return super().__contains__(token_id)

    def index(self, token_id: int, start: SupportsIndex = 0, stop: SupportsIndex = 2**62) -> int:
        first, end = (range(len(self))[slice(start, stop)] or range(1)).start, min(len(self), int(stop))
        try:
            found = super().index(token_id, start, stop)
        except ValueError:
            self.num_read += max(0, end - first)
            raise
        self.num_read += found - first + 1
        return found

    def count(self, token_id: int) -> int:
        self.num_read += len(self)
        return super().count(token_id)

    def copy(self) -> list[int]:
        self.num_read += len(self)
        return super().copy()


def check_reads(phase7: ModuleType, what: str, tokens: Sequence[int]) -> None:
    """Look up a long text: the answer must be right, and no token may be read too often."""
    lookup = Lookup(tuple(tokens), 4, 1, 3)
    text = CountedText(tokens)
    size, settings = counted(len(tokens), "token"), lookup.describe().splitlines()[1]
    with explained([f"a text of {size}, {what}", settings], rule=RULE_OF_LOOKUP):
        answer = phase7.propose_by_lookup(text, 4, 1, 3)
    yours = list_of(answer, "propose_by_lookup")
    rule, hint = symptom_of_lookup(lookup, yours)
    expect_equal(yours, naive_lookup(lookup), rule=rule, situation=f"a text of {size}, {what}\n{settings}", hint=hint)
    per_token = text.num_read / len(tokens)
    expect_equal(
        per_token <= READS_PER_TOKEN or f"{per_token:,.0f} reads per token",
        True,
        rule=f"A lookup reads each token of the text a few times; {READS_PER_TOKEN} reads per token are the limit.",
        situation=f"a text of {size}, {what}; prompt_lookup_max=3, so 3 reads at each place are plenty\n"
        "compared: is the number of reads within the limit?",
        hint="how long are the slices that you take at each place of the text?",
    )
