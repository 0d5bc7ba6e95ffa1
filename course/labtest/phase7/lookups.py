"""Checks of `propose_by_lookup`, and a text that counts what is read of it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, SupportsIndex

from course.labtest.expect import difference_report, expect_equal, explained
from course.labtest.failure import Failed, Report
from course.labtest.recorded import Answers
from course.labtest.whole_numbers import list_of
from course.views.text import counted

READS_PER_TOKEN = 100
RULE_OF_LOOKUP = (
    "The drafts are what followed the first earlier occurrence of the newest tokens, as many of them as occur earlier."
)
ALL_THAT_FOLLOW = (
    "The drafts are the tokens that follow the occurrence, up to num_speculative_tokens or the text's end."
)
NOT_FOUND = (
    "If the longest run stands nowhere earlier, the next shorter one is looked up. The newest tokens are no match for "
    "themselves."
)
WHICH_RUN = (
    "which run of newest tokens is the longest that stands earlier, too, where does it stand first, and at which place "
    "does what follows it begin and end?"
)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The arguments of a call."""

    tokens: tuple[int, ...]
    num_drafts: int
    shortest: int
    longest: int

    def describe(self) -> str:
        shown = str(list(self.tokens)) if len(self.tokens) <= 40 else counted(len(self.tokens), "token")
        return (
            f"text {shown}\n"
            f"num_speculative_tokens={self.num_drafts}  prompt_lookup_min={self.shortest}  "
            f"prompt_lookup_max={self.longest}"
        )


def lookup_report(phase7: ModuleType, answers: Answers, lookup: Lookup) -> Report:
    """Return what is wrong with the answer to one call, empty if nothing is."""
    text = list(lookup.tokens)
    with explained(lookup.describe().splitlines(), rule=RULE_OF_LOOKUP):
        answer = phase7.propose_by_lookup(text, lookup.num_drafts, lookup.shortest, lookup.longest)
    yours = list_of(answer, "propose_by_lookup")
    expected = answers(yours)
    if text != list(lookup.tokens):
        return difference_report(
            text,
            list(lookup.tokens),
            rule="propose_by_lookup only reads the text: it belongs to the request.",
            situation=f"{lookup.describe()}\nthe text after your call",
            hint="which of your operations changes a list in place (pop, remove, append, +=)?",
        )
    rule = RULE_OF_LOOKUP if yours else NOT_FOUND
    if yours[: len(expected)] == expected[: len(yours)]:
        rule = ALL_THAT_FOLLOW
    return difference_report(yours, expected, rule=rule, situation=lookup.describe(), hint=WHICH_RUN)


def check_lookup(
    phase7: ModuleType, answers: Answers, tokens: Sequence[int], num_drafts: int, shortest: int, longest: int
) -> None:
    """Compare the answer to one call."""
    report = lookup_report(phase7, answers, Lookup(tuple(tokens), num_drafts, shortest, longest))
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
        # `list.index` takes bounds as a slice does: below 0 from the end, beyond it cut.
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


def check_reads(phase7: ModuleType, answers: Answers, what: str, tokens: Sequence[int]) -> None:
    """Look up a long text: the answer must be right, and no token may be read too often."""
    lookup = Lookup(tuple(tokens), 4, 1, 3)
    text = CountedText(tokens)
    size, settings = counted(len(tokens), "token"), lookup.describe().splitlines()[1]
    with explained([f"a text of {size}, {what}", settings], rule=RULE_OF_LOOKUP):
        answer = phase7.propose_by_lookup(text, 4, 1, 3)
    yours = list_of(answer, "propose_by_lookup")
    expect_equal(
        yours, answers(yours), rule=RULE_OF_LOOKUP, situation=f"a text of {size}, {what}\n{settings}", hint=WHICH_RUN
    )
    per_token = text.num_read / len(tokens)
    expect_equal(
        per_token <= READS_PER_TOKEN or f"{per_token:,.0f} reads per token",
        True,
        rule=f"A lookup reads each token of the text a few times; {READS_PER_TOKEN} reads per token are the limit.",
        situation=f"a text of {size}, {what}; prompt_lookup_max=3, so 3 reads at each place are plenty\n"
        "compared: is the number of reads within the limit?",
        hint="how long are the slices that you take at each place of the text?",
    )
