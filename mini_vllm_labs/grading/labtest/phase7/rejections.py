"""Checks single calls of `rejection_sample`. If several tokens may be drawn, any of them is right."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import torch

from mini_vllm_labs.grading.labtest.expect import expect_equal, explained, lab_failure
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.whole_numbers import list_of

Row = Sequence[float]
LARGEST = 1 - 2**-53  # the largest number that random() returns
RULE = "A draft is kept if draw * draft probability < target probability. The first draft that is not kept is replaced."
LAST_ROW = "If all k drafts are kept, a token of the target's last row, row k, follows."
REPLACED = (
    "The first draft that is not kept is replaced by a token drawn from target - drafter, where that is above 0. "
    "If it is above 0 nowhere, the token is drawn from the target."
)
KEPT = (
    "for each draft in turn: is its first draw * the drafter's probability less than the target's probability? What "
    "does your list hold for it, and where does it end?"
)
WEIGHTS = (
    "from which row, with which weights and which of the draws do you draw it? To draw by weights, add them up in "
    "float64 and take the first token at which the sum exceeds draw * total."
)


@dataclass(frozen=True)
class Rejection:
    """The arguments of a call, with tensors as rows of numbers."""

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
    return [max(0.0, p - q) for p, q in zip(target, drafter, strict=True)]


def called(phase7: ModuleType, case: Rejection, dtype: torch.dtype = torch.float64) -> list[int]:
    """Return your tokens; the arguments must not change."""
    vocab_size = len(case.target_probs[0])
    tensors = [
        torch.tensor([list(row) for row in rows], dtype=dtype).reshape(-1, vocab_size)
        for rows in (case.draft_probs, case.target_probs)
    ]
    copies = [tensor.clone() for tensor in tensors]
    draws = list(case.draws)
    drafts = (list if len(case.drafts) % 2 else tuple)(case.drafts)  # any of the drafts in a share may be wrong
    with explained(case.describe(), rule=RULE):
        answer = phase7.rejection_sample(drafts, *tensors, draws)
    yours = list_of(answer, "rejection_sample")
    names = ("draft_probs", "target_probs", "draft_token_ids", "draws")
    unchanged = [*(torch.equal(now, then) for now, then in zip(tensors, copies, strict=True))]
    unchanged += [list(drafts) == list(case.drafts), draws == list(case.draws)]
    expect_equal(
        {name: "as before" if same else "changed" for name, same in zip(names, unchanged, strict=True)},
        dict.fromkeys(names, "as before"),
        rule="rejection_sample only reads its arguments.",
        situation=case.describe(),
        hint="which of your operations works in place (`clamp_`, `-=`, an assignment to `tensor[...]`)?",
    )
    return yours


def check_rejection(
    phase7: ModuleType, answers: Answers, case: Rejection, *, dtype: torch.dtype = torch.float64
) -> None:
    """Compare the kept drafts, and check that the last token is allowed to follow them."""
    yours = called(phase7, case, dtype)
    *kept, _ = answers(yours)
    weights = case.target_probs[len(kept)]
    if len(kept) < len(case.drafts):
        weights = surplus(weights, case.draft_probs[len(kept)])
    allowed = [token for token, weight in enumerate(weights) if weight > 0]
    if yours and yours[:-1] == kept and yours[-1] in allowed:
        return
    expected = str([*kept, *allowed]) if len(allowed) == 1 else f"{kept} and one of the tokens {_some(allowed)}"
    are_kept = len(kept) == len(case.drafts)
    rule = LAST_ROW if are_kept else REPLACED
    hint = f"the kept drafts are right. The token after them: {WEIGHTS}"
    if yours == kept:
        hint = "the kept drafts are right. Which token comes after them, and why is it not in your list?"
    elif yours[:-1] != kept:
        rule, hint = RULE, KEPT
    lab_failure(expected=expected, yours=yours, rule=rule, situation=case.describe(), hint=hint)


def check_repeats(phase7: ModuleType) -> None:
    """Make each of two calls 20 times."""
    drawn = Rejection([0], [[0.5, 0.25, 0.25, 0.0]], [[0.0, 0.25, 0.25, 0.5], [0.25] * 4], [(0.5, 0.4), (0.5, 0.4)])
    for same in (drawn, Rejection([], [], [[0.25] * 4], [(0.5, 0.4)])):
        expect_equal(
            sorted({str(called(phase7, same)) for _ in range(20)})[1:],
            [],
            rule="The only random numbers are those in `draws`: the same arguments give the same tokens.",
            situation=[*same.describe(), "compared: other answers to the same call, made 20 times"],
            hint="what else decides in your code: its own random numbers, or a value kept from an earlier call?",
        )


def random_case(rng: random.Random, num_drafts: int) -> Rejection:
    """Draw distributions in parts of 64, which need no rounding, and random numbers next to their boundaries."""
    vocab_size = rng.randint(2, 7)
    drafts = [rng.randrange(vocab_size) for _ in range(num_drafts)]
    drafter = [random_row(rng, vocab_size, token) for token in drafts]
    target = [random_row(rng, vocab_size) for _ in range(num_drafts + 1)]
    for place in range(num_drafts):
        if rng.random() < 0.3:
            target[place] = list(drafter[place])
    draws = [(rng.choice([0.0, (2 * rng.randrange(64) + 1) / 128]), rng.random()) for _ in range(num_drafts + 1)]
    return Rejection(drafts, drafter, target, draws)


def random_row(rng: random.Random, vocab_size: int, proposed: int | None = None) -> list[float]:
    """Draw a distribution in parts of 64; some may be 0, except the proposed token's."""
    possible = rng.sample(range(vocab_size), rng.randint(1, vocab_size))
    if proposed is not None:
        possible.append(proposed)
    parts = Counter([*possible, *rng.choices(possible, k=64 - len(possible))])
    return [parts[token] / 64 for token in range(vocab_size)]


def _some(tokens: Sequence[int]) -> str:
    return str(list(tokens)) if len(tokens) <= 12 else f"{str(list(tokens[:12]))[:-1]}, ...]"


def shown(row: Row) -> str:
    return "[" + ", ".join(f"{number:.6g}" for number in row) + "]"


def draw_shown(draw: float) -> str:
    """Return a random number with few digits, unless it would look like 1."""
    return str(draw) if draw > 0.999 else f"{draw:.4g}"


def _pair(draws: tuple[float, float]) -> str:
    return f"({draw_shown(draws[0])}, {draw_shown(draws[1])})"
