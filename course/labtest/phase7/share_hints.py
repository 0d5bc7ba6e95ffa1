"""Mistakes in `rejection_sample` that are visible in how often each token comes."""

from collections.abc import Iterator, Sequence

from course.labtest.phase7.rejection_symptoms import surplus

CLOSE = 0.02
RULE_OF_SHARES = "Every token comes with the target's probability, whatever the drafter proposes."
HINT_OF_SHARES = (
    "a token comes as a kept draft or as a replacement: how often each, in your code and in the handout's example?"
)


def advice_on_shares(
    target_parts: Sequence[int], drafter_parts: Sequence[int], shares: Sequence[float]
) -> tuple[str, str]:
    """Return the rule, and the hint for the mistake whose shares these are, if there is just one."""
    total = sum(target_parts)
    target, drafter = ([part / total for part in parts] for parts in (target_parts, drafter_parts))
    found = {
        hint
        for wrong, hint in wrong_shares(target, drafter)
        if all(abs(share - number) < CLOSE for share, number in zip(shares, wrong, strict=True))
    }
    return RULE_OF_SHARES, found.pop() if len(found) == 1 else HINT_OF_SHARES


def wrong_shares(target: list[float], drafter: list[float]) -> Iterator[tuple[list[float], str]]:
    """Yield the shares that a mistake leads to, and a hint."""
    kept = [min(p, q) for p, q in zip(target, drafter, strict=True)]
    rejected = 1 - sum(kept)
    left = surplus(target, drafter)
    likeliest = max(range(len(left)), key=left.__getitem__)
    yield drafter, "your shares are the drafter's: when does your code not keep a draft?"
    yield (
        [share + rejected * p for share, p in zip(kept, target, strict=True)],
        "a token that the drafter proposes often enough comes too often: from which numbers do you draw replacements?",
    )
    yield (
        [share + rejected / len(left) for share in kept],
        "your replacements are all equally likely: which weights should they have?",
    )
    yield (
        [
            share + rejected / sum(number > 0 for number in left) * (number > 0)
            for share, number in zip(kept, left, strict=True)
        ],
        "of the tokens that the target has more of, are all equally likely?",
    )
    yield (
        [share + rejected * (token == likeliest) for token, share in enumerate(kept)],
        "your replacement is always the same token: where does your code use the second draw?",
    )
    squeezed = [q * p for p, q in zip(target, drafter, strict=True)]
    yield (
        [share + (1 - sum(squeezed)) * number / sum(left) for share, number in zip(squeezed, left, strict=True)],
        "your drafts are kept with the target's probability: by what is it divided?",
    )
