"""The rule of `rejection_sample` on plain numbers, and mistakes that are visible in its answer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

Row = Sequence[float]


@dataclass(frozen=True)
class Case:
    """The arguments of a call, the tensors as rows of numbers."""

    drafts: Sequence[int]
    draft_probs: Sequence[Row]
    target_probs: Sequence[Row]
    draws: Sequence[tuple[float, float]]

    def describe(self) -> list[str]:
        lines = []
        for row, token in enumerate(self.drafts):
            drafter, target = self.draft_probs[row], self.target_probs[row]
            what = (
                f"drafter {_shown(drafter)} target {_shown(target)}" if len(drafter) <= 8 else f"{len(drafter)} tokens"
            )
            lines.append(f"row {row}: draft {token}  {what}  draws {self.draws[row]}")
        last = self.target_probs[-1]
        return [
            *lines,
            f"row {len(self.drafts)}: target {_shown(last) if len(last) <= 8 else f'{len(last)} tokens'}  "
            f"draws {self.draws[-1]}",
        ]


def surplus(target: Row, drafter: Row) -> list[float]:
    """Return what the target has more than the drafter."""
    return [max(0.0, p - q) for p, q in zip(target, drafter, strict=True)]


def outcome(case: Case) -> tuple[list[int], list[int]]:
    """Return the drafts that are kept, and the tokens that may stand behind them."""
    kept: list[int] = []
    for row, token in enumerate(case.drafts):
        target, drafter = case.target_probs[row], case.draft_probs[row]
        if case.draws[row][0] * drafter[token] >= target[token]:
            weights = surplus(target, drafter)
            return kept, [token for token, weight in enumerate(weights) if weight > 0]
        kept.append(token)
    return kept, [token for token, weight in enumerate(case.target_probs[-1]) if weight > 0]


def walked(draw: float, weights: Row) -> int:
    """Return the token that a walk in the order of the ids ends at."""
    reached, share = 0.0, draw * sum(weights)
    for token, weight in enumerate(weights):
        reached += weight
        if reached > share:
            return token
    return max(token for token, weight in enumerate(weights) if weight > 0) if any(weights) else 0


def variant(
    case: Case,
    *,
    keeps: Callable[[float, float, float], bool] = lambda draw, q, p: draw * q < p,
    weigh: Callable[[Row, Row], Row] = surplus,
    draw_of: tuple[int, int] = (0, 1),
    goes_on: bool = False,
    last_row: int | None = -1,
) -> list[int]:
    """Return what a sampler answers that makes one mistake. `draw_of`: which draw keeps, which one chooses."""
    tokens: list[int] = []
    keep, choose = draw_of
    for row, token in enumerate(case.drafts):
        target, drafter = case.target_probs[row], case.draft_probs[row]
        if keeps(case.draws[row][keep], drafter[token], target[token]):
            tokens.append(token)
            continue
        weights = weigh(target, drafter)
        tokens.append(walked(case.draws[row][choose], weights if any(weights) else target))
        if not goes_on:
            return tokens
    if last_row is not None:
        tokens.append(walked(case.draws[-1][choose], case.target_probs[last_row]))
    return tokens


def mistakes(case: Case) -> Iterator[tuple[list[int], str, str]]:
    """Yield the tokens that a mistake returns, the rule that it breaks, and a hint."""
    kept, _ = outcome(case)
    yield (
        variant(case, keeps=lambda draw, q, p: not draw * q < p),
        "A draft is kept with probability target / draft: the smaller the draw, the sooner.",
        "the draw is less than target / draft: is the draft kept then, or replaced?",
    )
    yield (
        variant(case, keeps=lambda draw, q, p: draw * p < q),
        "A draft is kept with probability min(1, target / draft).",
        "a token that the target likes better than the drafter: is it kept always, or sometimes?",
    )
    yield (
        variant(case, keeps=lambda draw, q, p: draw < p),
        "A draft is kept with probability min(1, target / draft): the drafter's probability counts as well.",
        "where does your condition use draft_probs?",
    )
    yield (
        variant(case, keeps=lambda draw, q, p: p >= q),
        "A draft that the drafter likes better than the target is kept sometimes, and not never.",
        "where does your condition use the draw?",
    )
    yield (
        variant(case, keeps=lambda draw, q, p: draw * q <= p),
        "A token that the target never says is never kept, even if the draw is 0.",
        "with a draw of 0 and a target probability of 0, what does your condition say?",
    )
    yield (
        variant(case, weigh=lambda target, drafter: target),
        "The replacement is drawn from what the target has more than the drafter.",
        "from which numbers is your replacement drawn: does a token count that the drafter has proposed often enough?",
    )
    yield (
        variant(case, weigh=lambda target, drafter: surplus(drafter, target)),
        "The replacement is drawn from what the target has more than the drafter.",
        "which of the two do you subtract from the other?",
    )
    yield (
        variant(case, draw_of=(1, 0)),
        "Of the two draws of a row the first decides whether to keep the draft, the second which token to draw.",
        "which of the two draws do you use for which question?",
    )
    yield (
        variant(case, goes_on=True),
        "The first draft that is not kept ends the list: the drafts behind it were made for another text.",
        "what does your loop do after it has replaced a draft?",
    )
    yield (
        variant(case, last_row=None),
        "Behind k kept drafts comes a token of the target's last row.",
        f"all {len(case.drafts)} drafts are kept: how many tokens are returned then?",
    )
    yield (
        variant(case, last_row=-2 if case.drafts else -1),
        "Behind k kept drafts comes a token of the target's last row, row k.",
        "which row of target_probs belongs to the token behind the last draft?",
    )
    yield (
        variant(case, keeps=lambda draw, q, p: True),
        "A draft that the drafter likes better than the target is kept sometimes, and not always.",
        "when does your code replace a draft?",
    )
    yield (
        variant(case, keeps=lambda draw, q, p: False),
        "A draft is kept with probability min(1, target / draft).",
        "when does your code keep a draft?",
    )
    yield (
        variant(replace(case, draws=[case.draws[0]] * len(case.draws))),
        "Every row has a pair of draws of its own.",
        "which draws do you use in row 1?",
    )
    alone, end = variant(case), variant(case)[-1:]
    yield (
        alone if len(alone) > len(case.drafts) else [*alone[:-1], case.drafts[len(alone) - 1], *end],
        "A rejected draft leaves the list: its replacement stands in its place.",
        "how many of the drafts stand before your replacement?",
    )
    yield (
        alone if len(alone) > len(case.drafts) else end,
        "The drafts before the rejected one are kept.",
        "what stands before your replacement?",
    )
    yield (
        alone if len(alone) > len(case.drafts) else kept,
        "A draft that is not kept is replaced by another token: each call returns at least one.",
        f"{len(kept)} drafts are kept: which token do you append behind them?",
    )


def _shown(row: Row) -> str:
    return "[" + ", ".join(f"{number:.3g}" for number in row) + "]"
