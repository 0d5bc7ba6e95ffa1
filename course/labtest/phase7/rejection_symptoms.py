"""The rule of `rejection_sample` on plain numbers, and what wrong tokens show by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

Row = Sequence[float]
Advice = tuple[str, str]
RULE = "A draft is kept if draw * draft probability < target probability; the first one that is not is replaced."
LAST_ROW = "Behind k kept drafts comes a token of the target's last row, row k."
REPLACED = "A draft that is not kept is replaced by another token: each call returns at least one."
ENDS = "The first draft that is not kept ends the list: the drafts behind it were made for another text."
BY_WEIGHTS = (
    "To draw by weights: add them up, and take the first token at which the sum is more than draw * total. A token of "
    "weight 0 never comes out."
)


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
            what = f"drafter {shown(drafter)} target {shown(target)}" if len(drafter) <= 8 else f"{len(drafter)} tokens"
            lines.append(f"row {row}: draft {token}  {what}  draws {_pair(self.draws[row])}")
        last = self.target_probs[-1]
        return [
            *lines,
            f"row {len(self.drafts)}: target {shown(last) if len(last) <= 8 else f'{len(last)} tokens'}  "
            f"draws {_pair(self.draws[-1])}",
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


def symptom_of_tokens(case: Case, yours: Sequence[int]) -> Advice:
    """Return (rule, hint) for the first place that is wrong; it holds for every mistake that gives these tokens."""
    kept, allowed = outcome(case)
    for row, token in enumerate(kept):
        if list(yours[: row + 1]) != kept[: row + 1]:
            has = f"yours has {yours[row]} in its place" if row < len(yours) else "your list ends before it"
            return RULE, f"{_product(case, row)}: is draft {token} kept? As it is, {has}."
    row, is_rejected = len(kept), len(kept) < len(case.drafts)
    if len(yours) == row:
        return (REPLACED if is_rejected else LAST_ROW), f"your list ends with row {row - 1}. What comes in row {row}?"
    token, is_longer = yours[row], len(yours) > row + 1
    if is_rejected and is_longer and token == case.drafts[row]:
        return RULE, f"{_product(case, row)}: is draft {token} kept? As it is, your list has it and goes on."
    if token not in allowed:
        draw = case.draws[row][1]
        weights = surplus(case.target_probs[row], case.draft_probs[row]) if is_rejected else case.target_probs[row]
        end = ", and what does it return if rounding keeps all sums too small" if draw > 0.999 else ""
        listed = f"the weights of row {row} are {shown(weights)}" if len(weights) <= 8 else f"it is drawn in row {row}"
        return BY_WEIGHTS, (
            f"your token {token} has weight 0; {listed}, the draw is {draw_shown(draw)}. From which numbers does your "
            f"code draw, with which draw, and where does its walk end{end}?"
        )
    if is_rejected:
        return ENDS, f"draft {case.drafts[row]} of row {row} is replaced. What does your code do behind that?"
    return LAST_ROW, f"all drafts are kept, and the last row is row {row}. What stands behind its token in your list?"


def _product(case: Case, row: int) -> str:
    token = case.drafts[row]
    product, target = case.draws[row][0] * case.draft_probs[row][token], case.target_probs[row][token]
    return f"row {row}: draw * drafter is {product:.4g}, target {target:.4g}"


def shown(row: Row) -> str:
    return "[" + ", ".join(f"{number:.6g}" for number in row) + "]"


def draw_shown(draw: float) -> str:
    """Return a draw in a few digits, unless it would look like 1."""
    return str(draw) if draw > 0.999 else f"{draw:.4g}"


def _pair(draws: tuple[float, float]) -> str:
    return f"({draw_shown(draws[0])}, {draw_shown(draws[1])})"
