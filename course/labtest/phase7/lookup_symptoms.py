"""The rule of `propose_by_lookup` as it is written, and mistakes that are visible in its answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Lookup:
    """The arguments of a call."""

    tokens: tuple[int, ...]
    num_drafts: int
    shortest: int
    longest: int

    def describe(self) -> str:
        shown = str(list(self.tokens)) if len(self.tokens) <= 40 else f"{len(self.tokens)} tokens"
        return (
            f"text {shown}\n"
            f"num_speculative_tokens={self.num_drafts}  prompt_lookup_min={self.shortest}  "
            f"prompt_lookup_max={self.longest}"
        )


def naive_lookup(lookup: Lookup) -> list[int]:
    """Try every length and every place, the longest length and the first place first."""
    tokens = list(lookup.tokens)
    for length in range(lookup.longest, lookup.shortest - 1, -1):
        for start in range(len(tokens) - length):
            if tokens[start : start + length] == tokens[len(tokens) - length :]:
                return tokens[start + length : start + length + lookup.num_drafts]
    return []


def mistakes(lookup: Lookup) -> Iterator[tuple[list[int], str, str]]:
    """Yield the answer that a mistake gives, the rule that it breaks, and a hint."""
    tokens, num_drafts = list(lookup.tokens), lookup.num_drafts
    shortest, longest = lookup.shortest, min(lookup.longest, len(tokens) - 1)
    yield (
        by_places(lookup, range(longest, shortest - 1, -1), last=True),
        "Of several occurrences the first one counts.",
        "yours are the tokens behind the last of the occurrences: from which end does your search begin?",
    )
    yield (
        by_places(lookup, range(shortest, longest + 1)),
        "The longest run of newest tokens that occurs earlier counts.",
        "a shorter run matched, and yours stopped there: with which length does your search begin?",
    )
    yield (
        by_places(lookup, range(longest, shortest, -1)),
        "A run of just prompt_lookup_min tokens is looked up, too.",
        f"which lengths does your search try if the minimum is {shortest}?",
    )
    yield (
        by_places(lookup, range(min(lookup.longest - 1, longest), shortest - 1, -1)),
        "A run of just prompt_lookup_max tokens is looked up, too.",
        f"which lengths does your search try if the maximum is {lookup.longest}?",
    )
    yield (
        [] if len(tokens) <= lookup.longest else naive_lookup(lookup),
        "In a short text, shorter runs are looked up.",
        f"the text has {len(tokens)} tokens. Does your search return before it tries shorter runs?",
    )
    yield (
        by_places(lookup, range(longest, 0, -1)),
        "No run of fewer than prompt_lookup_min tokens is looked up.",
        f"with fewer than {lookup.shortest} newest tokens there is a match. Where does your search use the minimum?",
    )
    yield (
        by_places(lookup, range(len(tokens) - 1, shortest - 1, -1)),
        "No run of more than prompt_lookup_max tokens is looked up.",
        f"with more than {lookup.longest} newest tokens there is a match. Where does your search use the maximum?",
    )
    yield (
        by_places(lookup, [lookup.longest]),
        "If the longest run does not occur earlier, the next shorter one is looked up.",
        f"what does your search do once {lookup.longest} newest tokens were not found?",
    )
    yield (
        by_places(lookup, range(longest, shortest - 1, -1), overlapping=False),
        "An earlier occurrence may overlap with the newest tokens.",
        "in a text of equal tokens, which places does your search leave out at the end?",
    )
    yield (
        by_places(lookup, range(longest, shortest - 1, -1), least=num_drafts),
        "If fewer tokens follow than were asked for, those are the drafts.",
        f"fewer than {num_drafts} tokens follow the occurrence. What does your code do then?",
    )
    yield (
        by_places(lookup, [longest] if longest >= shortest else []),
        "If the longest run does not occur earlier, the next shorter one is looked up.",
        "what ends your search too soon: a `return` within the loop, or the newest tokens, found where they stand?",
    )
    yield (
        naive_lookup(replace(lookup, num_drafts=len(tokens))),
        "At most num_speculative_tokens tokens are drafts.",
        f"{num_drafts} drafts were asked for: where does your answer end?",
    )
    yield (
        naive_lookup(replace(lookup, num_drafts=num_drafts - 1)),
        "If enough tokens follow, num_speculative_tokens of them are drafts.",
        f"{num_drafts} drafts were asked for: where does your answer end?",
    )
    drafts = naive_lookup(lookup)
    yield (
        drafts[: drafts.index(0)] if 0 in drafts else drafts,
        "Token 0 is a token like any other.",
        "which of your conditions is false for the number 0?",
    )
    yield (
        by_places(lookup, [length for length in range(longest, shortest - 1, -1) if tokens[-length]]),
        "Token 0 is a token like any other.",
        "which of your conditions is false for the number 0?",
    )
    matched = next((length for length in range(longest, shortest - 1, -1) if places(tokens, length)), 0)
    start = places(tokens, matched)[0] if matched else len(tokens)
    yield (
        tokens[start : start + num_drafts],
        "The drafts are the tokens behind the occurrence, without those that matched.",
        f"{matched} tokens matched: at which place does your answer begin?",
    )
    yield (
        tokens[start + matched : start + num_drafts],
        "num_speculative_tokens counts the drafts, without the tokens that matched.",
        f"{matched} tokens matched: from which place do you count to {num_drafts}?",
    )


def places(tokens: list[int], length: int) -> list[int]:
    """Return where the newest `length` tokens occur earlier."""
    newest = tokens[len(tokens) - length :]
    return [start for start in range(len(tokens) - length) if tokens[start : start + length] == newest]


def by_places(
    lookup: Lookup,
    lengths: Sequence[int],
    *,
    last: bool = False,
    overlapping: bool = True,
    least: int = 1,
) -> list[int]:
    """Return what a search finds that tries these lengths and makes one mistake more."""
    tokens = list(lookup.tokens)
    for length in lengths:
        found = places(tokens, length)
        if not overlapping:
            found = [start for start in found if start + length <= len(tokens) - length]
        found = [start for start in found if len(tokens) - start - length >= least]
        if found:
            start = found[-1 if last else 0]
            return tokens[start + length : start + length + lookup.num_drafts]
    return []
