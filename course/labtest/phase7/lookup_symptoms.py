"""The rule of `propose_by_lookup` as it is written, and what a wrong answer shows by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from course.views.text import counted

Advice = tuple[str, str]
RULE_OF_LOOKUP = (
    "The drafts are what followed the first earlier occurrence of the newest tokens, as many of them as occur earlier."
)
AT_MOST = "At most num_speculative_tokens tokens are drafts."
ALL_THAT_FOLLOW = (
    "The drafts are the tokens that follow the occurrence, up to num_speculative_tokens or the text's end."
)
NOT_FOUND = (
    "If the longest run stands nowhere earlier, the next shorter one is looked up. The newest tokens are no match for "
    "themselves."
)
NOTHING_EARLIER = (
    "Drafts follow a run of prompt_lookup_min to prompt_lookup_max newest tokens that stands earlier, token by token."
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


def naive_lookup(lookup: Lookup) -> list[int]:
    """Try every length and every place, the longest length and the first place first."""
    start, length = match_of(lookup)
    return list(lookup.tokens)[start + length :][: lookup.num_drafts] if length else []


def match_of(lookup: Lookup) -> tuple[int, int]:
    """Return place and length of the run that counts, (0, 0) if there is none."""
    tokens = list(lookup.tokens)
    for length in range(lookup.longest, lookup.shortest - 1, -1):
        for start in range(len(tokens) - length):
            if tokens[start : start + length] == tokens[len(tokens) - length :]:
                return start, length
    return 0, 0


def symptom_of_lookup(lookup: Lookup, yours: Sequence[int]) -> Advice:
    """Return (rule, hint) that holds for every mistake that gives this wrong answer."""
    tokens, expected = list(lookup.tokens), naive_lookup(lookup)
    start, length = match_of(lookup)
    if not expected:
        return (
            NOTHING_EARLIER,
            f"no run of {lookup.shortest} to {lookup.longest} newest tokens stands earlier. Which tokens of the text "
            "does your code take for equal, and does it compare all of a run?",
        )
    run, behind = tokens[start : start + length], start + length
    found = f"the newest {_run(run)} at place {start}, too"
    if not yours:
        return NOT_FOUND, f"{found}. At which places does your search look for this run, and what ends it?"
    amounts = (
        f"your list has {counted(len(yours), 'draft')}; asked for: {lookup.num_drafts}; tokens behind the occurrence: "
        f"{len(tokens) - behind}. Where does your answer end?"
    )
    if len(yours) > lookup.num_drafts and list(yours[: len(expected)]) == expected:
        return AT_MOST, amounts
    size = len(yours)
    elsewhere = [start for start in range(len(tokens) - size + 1) if tokens[start : start + size] == list(yours)]
    is_longer = size > len(expected) and not elsewhere
    is_shorter = size < len(expected) and len(tokens) - size not in elsewhere
    if (is_longer or is_shorter) and list(yours[: len(expected)]) == expected[:size]:
        return ALL_THAT_FOLLOW, amounts
    return RULE_OF_LOOKUP, (
        f"{found}, and what follows it begins at place {behind}. Which run does your search find, where, and at which "
        "place does your answer begin?"
    )


def _run(run: Sequence[int]) -> str:
    return f"token, {run[0]}, stands" if len(run) == 1 else f"{len(run)} tokens, {str(list(run))[1:-1]}, stand"


def places(tokens: list[int], length: int) -> list[int]:
    """Return where the newest `length` tokens occur earlier."""
    newest = tokens[len(tokens) - length :]
    return [start for start in range(len(tokens) - length) if tokens[start : start + length] == newest]
