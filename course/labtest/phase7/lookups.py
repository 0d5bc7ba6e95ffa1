"""Checks of `propose_by_lookup`: the rule as it is written, and a text that counts what is read of it."""

import random
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, SupportsIndex

from course.labtest.expect import difference_report, expect_equal
from course.labtest.failure import Failed, Report
from course.labtest.phase6.whole_numbers import whole_numbers
from course.labtest.phase7.identify import identified
from course.labtest.phase7.lookup_symptoms import Lookup, mistakes, naive_lookup

RULE_OF_LOOKUP = (
    "The drafts are what followed the first earlier occurrence of the newest tokens, as many of them as occur earlier."
)
HINT_OF_LOOKUP = "which runs of newest tokens occur earlier, and which of them is the longest that may be looked up?"
READS_PER_TOKEN = 100


def lookup_report(phase7: ModuleType, lookup: Lookup) -> Report:
    """Return what is wrong with the answer to one call, empty if nothing is."""
    text = list(lookup.tokens)
    answer = phase7.propose_by_lookup(text, lookup.num_drafts, lookup.shortest, lookup.longest)
    yours, expected = whole_numbers(answer, "propose_by_lookup"), naive_lookup(lookup)
    rule, hint = RULE_OF_LOOKUP, HINT_OF_LOOKUP
    if yours != expected:

        def ask(other: Lookup) -> list[int]:
            found = phase7.propose_by_lookup(list(other.tokens), other.num_drafts, other.shortest, other.longest)
            return whole_numbers(found, "propose_by_lookup")

        rng = random.Random(1)
        others = [random_lookup(rng) for _ in range(200)]
        rule, hint = identified(lookup, others, ask, mistakes) or (rule, hint)
    report = difference_report(yours, expected, rule=rule, situation=lookup.describe(), hint=hint)
    return report or difference_report(
        text,
        list(lookup.tokens),
        rule="propose_by_lookup only reads the text: it belongs to the request.",
        situation=f"{lookup.describe()}\nthe text after your call",
        hint="which of your operations changes a list in place (pop, remove, append, +=)?",
    )


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
    yours = whole_numbers(phase7.propose_by_lookup(text, 4, 1, 3), "propose_by_lookup")
    expect_equal(
        yours,
        naive_lookup(lookup),
        rule=RULE_OF_LOOKUP,
        situation=f"a text of {len(tokens)} tokens, {what}\n{lookup.describe().splitlines()[1]}",
        hint=HINT_OF_LOOKUP,
    )
    per_token = text.num_read / len(tokens)
    expect_equal(
        per_token <= READS_PER_TOKEN or f"{per_token:,.0f} reads per token",
        True,
        rule=f"A lookup reads each token of the text a few times; {READS_PER_TOKEN} reads per token are the limit.",
        situation=f"a text of {len(tokens)} tokens, {what}; prompt_lookup_max=3, so 3 reads at each place are plenty\n"
        "compared: is the number of reads within the limit?",
        hint="how long are the slices that you take at each place of the text?",
    )
