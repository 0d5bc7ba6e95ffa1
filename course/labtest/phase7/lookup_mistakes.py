"""Known mistakes in `propose_by_lookup`: what each answers, the rule that it breaks, and a hint."""

from collections.abc import Callable, Iterator, Sequence

from course.labtest.phase7.lookup_symptoms import (
    ALL_THAT_FOLLOW,
    AT_MOST,
    NOT_FOUND,
    Lookup,
    naive_lookup,
    places,
)
from course.views.text import counted

Mistake = tuple[list[int], str, str]
LONGEST_FIRST = "The longest run of newest tokens that occurs earlier counts."
BEHIND = "The drafts are the tokens behind the occurrence, without those that matched."
TOKEN_0 = "Token 0 is a token like any other."
ENDS = "what ends your search: a `return` within the loop, or the newest tokens, found where they stand themselves?"


def mistakes(lookup: Lookup) -> Iterator[Mistake]:
    """Yield the answer that a mistake gives, the rule that it breaks, and a hint."""
    yield from _wrong_lengths(lookup)
    yield from _wrong_places(lookup)
    yield from _wrong_drafts(lookup)


def _wrong_lengths(lookup: Lookup) -> Iterator[Mistake]:
    tokens, shortest = lookup.tokens, lookup.shortest
    longest = min(lookup.longest, len(tokens) - 1)
    for lengths in ([lookup.longest], [longest] if longest >= shortest else [], []):
        yield by_places(lookup, lengths), NOT_FOUND, ENDS  # a match with itself answers the same
    hint = "a shorter run matched, and yours stopped there: with which length does your search begin?"
    yield by_places(lookup, range(shortest, longest + 1)), LONGEST_FIRST, hint
    yield by_places(lookup, [1]), LONGEST_FIRST, "which lengths does your search try at all?"
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
        f"the text has {counted(len(tokens), 'token')}. Does your search return before it tries shorter runs?",
    )
    yield (
        by_places(lookup, range(longest, 0, -1)),
        "No run of fewer than prompt_lookup_min tokens is looked up.",
        f"with fewer than {counted(shortest, 'newest token')} there is a match. Where does your search use the "
        "minimum?",
    )
    yield (
        by_places(lookup, range(len(tokens) - 1, shortest - 1, -1)),
        "No run of more than prompt_lookup_max tokens is looked up.",
        f"with more than {counted(lookup.longest, 'newest token')} there is a match. Where does your search use the "
        "maximum?",
    )
    yield (
        by_places(lookup, [length for length in range(longest, shortest - 1, -1) if tokens[-length]]),
        TOKEN_0,
        "which of your conditions is false for the number 0?",
    )


def _wrong_places(lookup: Lookup) -> Iterator[Mistake]:
    size, lengths = len(lookup.tokens), range(min(lookup.longest, len(lookup.tokens) - 1), lookup.shortest - 1, -1)
    yield (
        by_places(lookup, lengths, last=True),
        "Of several occurrences the first one counts.",
        "yours are the tokens behind the last of the occurrences: from which end does your search begin?",
    )
    yield (
        by_places(lookup, lengths, allowed=lambda start, length: start + 2 * length <= size),
        "An earlier occurrence may overlap with the newest tokens.",
        "in a text of equal tokens, which places does your search leave out at the end?",
    )
    yield (
        by_places(lookup, lengths, allowed=lambda start, length: start < size - length - 1),
        "The last place to look at is the one just before the newest tokens' own.",
        "the text ends with equal tokens. At which place does your search end, and where does the run stand once more?",
    )
    yield (
        by_places(lookup, lengths, allowed=lambda start, length: start > 0),
        "The first place to look at is place 0.",
        "the run stands at the front of the text. At which place does your search begin?",
    )
    yield (
        by_places(lookup, lengths, allowed=lambda start, length: start + length + lookup.num_drafts <= size),
        "If fewer tokens follow than were asked for, those are the drafts.",
        f"fewer than {counted(lookup.num_drafts, 'token')} follow the occurrence. What does your code do then?",
    )
    yield (
        by_places(
            lookup,
            lengths,
            allowed=lambda start, length: lookup.tokens[size - length] not in lookup.tokens[:start],
        ),
        "Every earlier place is looked at until the whole run is found.",
        "the first token of a run stands at several places. What does your search do if the rest does not match there?",
    )


def _wrong_drafts(lookup: Lookup) -> Iterator[Mistake]:
    tokens, num_drafts, drafts = list(lookup.tokens), lookup.num_drafts, naive_lookup(lookup)
    lengths = range(min(lookup.longest, len(tokens) - 1), lookup.shortest - 1, -1)
    matched = next((length for length in lengths if places(tokens, length)), 0)
    start = places(tokens, matched)[0] if matched else len(tokens)
    hint = f"{counted(num_drafts, 'draft')} asked for: where does your answer end?"
    yield tokens[start + matched :], AT_MOST, hint
    yield tokens[start + matched :][: num_drafts - 1], ALL_THAT_FOLLOW, hint
    yield (
        tokens[start + matched : len(tokens) - matched][:num_drafts],
        "The drafts go on to the end of the text: the newest tokens may be among them.",
        "at which place does your answer end, and is that the end of the text?",
    )
    yield drafts[: drafts.index(0)] if 0 in drafts else drafts, TOKEN_0, "which of your conditions is false for 0?"
    hint = f"matched: {counted(matched, 'token')}, from place {start} on. At which place does your answer begin?"
    for shift in (-matched, 1 - matched, 1):
        begin = start + matched + shift
        yield tokens[begin : begin + num_drafts], BEHIND, hint
    yield (
        tokens[start + matched : start + num_drafts],
        "num_speculative_tokens counts the drafts, without the tokens that matched.",
        f"matched: {counted(matched, 'token')}. From which place do you count to {num_drafts}?",
    )


def by_places(
    lookup: Lookup,
    lengths: Sequence[int],
    *,
    last: bool = False,
    allowed: Callable[[int, int], bool] = lambda start, length: True,
) -> list[int]:
    """Return what a search finds that tries these lengths, and only the places that are allowed."""
    tokens = list(lookup.tokens)
    for length in lengths:
        found = [start for start in places(tokens, length) if allowed(start, length)]
        if found:
            start = found[-1 if last else 0]
            return tokens[start + length : start + length + lookup.num_drafts]
    return []
