"""Checks of `propose_by_lookup`."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mini_vllm_labs.grading.labtest.expect import Told, difference_report, expect_equal, explained
from mini_vllm_labs.grading.labtest.failure import Failed, Report
from mini_vllm_labs.grading.labtest.moments import told_of_memory
from mini_vllm_labs.grading.labtest.phase7.counted_text import READS_PER_TOKEN, Work, text_of
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.whole_numbers import list_of
from mini_vllm_labs.grading.labtest.work import work_of
from mini_vllm_labs.pictures.text import counted

SMALL, LARGE = (2, 12, 21, 1, 122, 22, 0, 212, 11), (300, 151_643, 1_000_003, 1, 2**16 + 1, 257, 256, 43, 0)
RULE_OF_LOOKUP = (
    "The drafts are what followed the first earlier occurrence of the newest tokens, as many of them as occur earlier."
)
ALL_THAT_FOLLOW = (
    "The drafts are the tokens that follow the occurrence, up to num_speculative_tokens or the text's end."
)
NOT_FOUND = (
    "From prompt_lookup_max newest tokens down to prompt_lookup_min, the next shorter run is looked up if one stands "
    "nowhere earlier; if none does, there are no drafts. The newest tokens are no match for themselves."
)
ALONE = "the same call, with a copy of the text"
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
    text = new_objects(lookup.tokens)
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
    told = told_of_drafts(yours, expected, lookup, lookup.describe())
    if yours != expected:
        texts = [new_objects(lookup.tokens) for _ in range(1000)]  # the last one at an address that no text has had
        settings = lookup.num_drafts, lookup.shortest, lookup.longest
        told = told_of_memory(told, lambda: phase7.propose_by_lookup(texts[-1], *settings), expected, ALONE)
    return difference_report(yours, expected, **told)


def told_of_drafts(yours: Sequence[int], expected: Sequence[int], lookup: Lookup, situation: str) -> Told:
    """Return what a report says: it asks whether a run stands earlier, which one, or how many tokens follow."""
    rule, hint = RULE_OF_LOOKUP, WHICH_RUN
    if not expected:
        rule = NOT_FOUND
        newest = counted(lookup.shortest, "newest token")
        hint = f"does the run of {newest}, or a longer one, stand anywhere earlier? Which tokens did yours match?"
    elif not yours:
        rule = NOT_FOUND
    elif yours[: len(expected)] == expected[: len(yours)]:
        rule = ALL_THAT_FOLLOW
        hint = "your drafts begin as they should. How many tokens follow the occurrence, and how many may be proposed?"
    return {"rule": rule, "situation": situation, "hint": hint}


def check_lookup(
    phase7: ModuleType, answers: Answers, tokens: Sequence[int], num_drafts: int, shortest: int, longest: int
) -> None:
    report = lookup_report(phase7, answers, Lookup(tuple(tokens), num_drafts, shortest, longest))
    if report:
        raise Failed(report, report.parts)


def random_lookup(rng: random.Random) -> Lookup:
    """Return a text of few different tokens, so that much of it occurs twice. Ids may hold others, digit by digit."""
    kinds = list(rng.choice([range(9), SMALL, SMALL, LARGE]))[: rng.choice([1, 2, 2, 3, 3, 4, 9])]
    tokens = tuple(rng.choice(kinds) for _ in range(rng.choice([rng.randint(1, 24), rng.randint(1, 24), 60])))
    shortest = rng.choice([1, 2, 3, 3, 6])
    return Lookup(tokens, rng.choice([rng.randint(1, 6), 24]), shortest, shortest + rng.choice([0, 1, 2, 3, 9]))


def new_objects(numbers: Iterable[int]) -> list[int]:
    """Return equal numbers, each an object of its own if it is over 256: tokens are equal, not identical."""
    return [int(str(number)) for number in numbers]


def check_reads(phase7: ModuleType, answers: Answers, what: str, tokens: Sequence[int]) -> None:
    """Look up a long text: the answer must be right, and no token may be looked at too often."""
    work, lookup = Work(), Lookup(tuple(tokens), 4, 1, 3)
    text = text_of(tokens, work)
    size, settings = counted(len(tokens), "token"), lookup.describe().splitlines()[1]
    answer: list[Any] = []
    with explained([f"a text of {size}, {what}", settings], rule=RULE_OF_LOOKUP):
        num_lines = work_of(lambda: answer.append(phase7.propose_by_lookup(text, 4, 1, 3)), str(phase7.__file__))
    yours = list_of(answer[0], "propose_by_lookup")
    expected = answers(yours)
    expect_equal(yours, expected, **told_of_drafts(yours, expected, lookup, f"a text of {size}, {what}\n{settings}"))
    per_token = (work.count + num_lines) / len(tokens)
    expect_equal(
        per_token <= READS_PER_TOKEN or f"{per_token:,.0f} reads per token",
        True,
        rule=f"A lookup reads each token of the text a few times; {READS_PER_TOKEN} reads per token are the limit.",
        situation=f"a text of {size}, {what}; prompt_lookup_max=3, so 3 reads at each place are plenty\n"
        "counted: tokens read, compared or copied, and lines run; compared: is their number within the limit?",
        hint="what does your code do at each place of the text, and how many tokens does that read, compare or copy?",
    )
