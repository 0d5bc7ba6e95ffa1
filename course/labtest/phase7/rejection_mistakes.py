"""Known mistakes in `rejection_sample`: the tokens that each returns, the rule that it breaks, and a hint.

The hints say nothing about a single call, so that they hold wherever a mistake is recognised.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from course.labtest.phase7.rejection_symptoms import BY_WEIGHTS, ENDS, LAST_ROW, REPLACED, Case, Row, outcome, surplus

Keeps = Callable[[float, float, float], bool]
Walk = Callable[[float, Row], int]
KEPT = "A draft is kept with probability min(1, target / draft)."
MORE = "The replacement is drawn from what the target has more than the drafter."
DRAWS = "Of the two draws of a row the first decides whether to keep the draft, the second which token to draw."
OWN_DRAWS = "Every row has a pair of draws of its own."
WHICH_DRAW = "which of the two draws do you use for which question, in the last row, too?"


def walked(draw: float, weights: Row, *, at_least: bool = False, scaled: bool = True, late: bool = False) -> int:
    """Return the token that a walk in the order of the ids ends at, perhaps with one mistake."""
    reached, share = 0.0, draw * sum(weights) if scaled else draw
    for token, weight in enumerate(weights):
        before, reached = reached, reached + weight
        if (before if late else reached) > share or (at_least and reached >= share):
            return token
    return len(weights) - 1


def likeliest(draw: float, weights: Row) -> int:
    return max(range(len(weights)), key=weights.__getitem__)


def one_before(draw: float, weights: Row) -> int:
    return max(0, walked(draw, weights) - 1)


def or_token_0(draw: float, weights: Row) -> int:
    """Return what an `argmax` over sums that are not scaled finds."""
    return walked(draw, weights, scaled=False) if sum(weights) > draw else 0


@dataclass(frozen=True)
class Sampler:
    """A sampler that may make a mistake. The draws of a row by their places: to keep, to choose, in the last row."""

    keeps: Keeps = lambda draw, q, p: draw * q < p
    weigh: Callable[[Row, Row, int], Row] = lambda target, drafter, draft: surplus(target, drafter)
    walk: Walk = walked
    last_walk: Walk | None = None
    draws: tuple[int, int, int] = (0, 1, 1)
    draws_ahead: int = 0
    goes_on: bool = False
    last_row: int | None = -1

    def tokens(self, case: Case) -> list[int]:
        tokens: list[int] = []
        keep, choose, last = self.draws
        for row, draft in enumerate(case.drafts):
            target, drafter = case.target_probs[row], case.draft_probs[row]
            if self.keeps(case.draws[row][keep], drafter[draft], target[draft]):
                tokens.append(draft)
                continue
            weights = self.weigh(target, drafter, draft)
            draw = case.draws[row + self.draws_ahead][choose]
            tokens.append(self.walk(draw, weights if any(weights) else target))
            if not self.goes_on:
                return tokens
        if self.last_row is not None:
            weights = case.target_probs[max(self.last_row, -len(case.target_probs))]
            tokens.append((self.last_walk or self.walk)(case.draws[-1][last], weights))
        return tokens


def _without(target: Row, drafter: Row, draft: int) -> Row:
    return [0.0 if token == draft else weight for token, weight in enumerate(target)]


AT_LEAST, UNSCALED, LATE = partial(walked, at_least=True), partial(walked, scaled=False), partial(walked, late=True)
OVER_0 = "the draw may be 0, and before the first possible token the sum is 0. Is that enough, or must it be more?"
SCALE = "the weights of a replacement do not add up to 1. With which number do you compare their sums?"
STEP = "is the weight of a token added before your code compares, and which token is returned then?"
TAKEN = "your code takes the likeliest token. Where does it use the second draw?"
KNOWN: list[tuple[Sampler, str, str]] = [
    (
        Sampler(keeps=lambda draw, q, p: not draw * q < p),
        "A draft is kept with probability target / draft: the smaller the draw, the sooner.",
        "if the draw is less than target / draft: is the draft kept then, or replaced?",
    ),
    (
        Sampler(keeps=lambda draw, q, p: draw * p < q),
        KEPT,
        "a token that the target likes better than the drafter: is it kept always, or sometimes?",
    ),
    (
        Sampler(keeps=lambda draw, q, p: draw < p),
        f"{KEPT[:-1]}: the drafter's probability counts as well.",
        "where does your condition use draft_probs?",
    ),
    (
        Sampler(keeps=lambda draw, q, p: p >= q),
        "A draft that the drafter likes better than the target is kept sometimes, and not never.",
        "where does your condition use the draw?",
    ),
    (
        Sampler(keeps=lambda draw, q, p: draw * q <= p),
        "A token that the target never says is never kept, even if the draw is 0.",
        "with a draw of 0 and a target probability of 0, what does your condition say?",
    ),
    (
        Sampler(keeps=lambda draw, q, p: True),
        "A draft that the drafter likes better than the target is kept sometimes, and not always.",
        "when does your code replace a draft?",
    ),
    (Sampler(keeps=lambda draw, q, p: False), KEPT, "when does your code keep a draft?"),
    (
        Sampler(weigh=lambda target, drafter, draft: target),
        MORE,
        "from which numbers is your replacement drawn: does a token count that the drafter has proposed often enough?",
    ),
    (
        Sampler(weigh=_without),
        MORE,
        "your replacement is any other token. Does one count that the drafter has proposed often enough?",
    ),
    (
        Sampler(weigh=lambda target, drafter, draft: surplus(drafter, target)),
        MORE,
        "which of the two do you subtract from the other?",
    ),
    (
        Sampler(weigh=lambda target, drafter, draft: [abs(p - q) for p, q in zip(target, drafter, strict=True)]),
        MORE,
        "where the target has less than the drafter, which weight does a token have in your code?",
    ),
    *((Sampler(draws=draws), DRAWS, WHICH_DRAW) for draws in ((1, 0, 1), (1, 0, 0), (0, 0, 1), (0, 0, 0), (0, 1, 0))),
    (Sampler(draws_ahead=1), OWN_DRAWS, "which draws do you use for the replacement in row 0?"),
    (Sampler(goes_on=True), ENDS, "what does your loop do after it has replaced a draft?"),
    (Sampler(last_row=None), LAST_ROW, "if all k drafts are kept: how many tokens are returned then?"),
    *(
        (Sampler(last_row=row), LAST_ROW, "which row of target_probs belongs to the token behind the last draft?")
        for row in (0, -2)
    ),
    *((Sampler(walk=walk), BY_WEIGHTS, STEP) for walk in (LATE, one_before)),
    *(
        (Sampler(walk=walk, last_walk=last), BY_WEIGHTS, OVER_0)
        for walk, last in ((AT_LEAST, None), (walked, AT_LEAST))
    ),
    *((Sampler(walk=walk), BY_WEIGHTS, SCALE) for walk in (UNSCALED, or_token_0)),
    *(
        (Sampler(walk=walk, last_walk=last), BY_WEIGHTS, TAKEN)
        for walk, last in ((likeliest, likeliest), (likeliest, walked), (walked, likeliest))
    ),
]


def mistakes(case: Case) -> Iterator[tuple[list[int], str, str]]:
    """Yield the tokens that a mistake returns, the rule that it breaks, and a hint."""
    for sampler, rule, hint in KNOWN:
        yield sampler.tokens(case), rule, hint
    right = Sampler()
    first = replace(case, draws=[case.draws[0]] * len(case.draws))
    yield right.tokens(first), OWN_DRAWS, "which draws do you use in row 1?"
    first = replace(first, draws=[*first.draws[:-1], case.draws[-1]])
    yield right.tokens(first), OWN_DRAWS, "which draws do you use in row 1?"
    tokens, (kept, _) = right.tokens(case), outcome(case)
    if len(kept) == len(case.drafts):
        told = [tokens] * 3
    else:
        told = [[*tokens[:-1], case.drafts[len(kept)], tokens[-1]], tokens[-1:], kept]
    hint = "how many of the drafts stand before your replacement?"
    yield told[0], "A rejected draft leaves the list: its replacement stands in its place.", hint
    yield told[1], "The drafts before the rejected one are kept.", "what stands before your replacement?"
    yield told[2], REPLACED, "which token do you append behind the kept drafts?"
