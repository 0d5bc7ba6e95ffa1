"""Checks of `rejection_sample` on single calls. Where several tokens may be drawn, any of them is right."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import torch

from course.labtest.expect import expect_equal, explained, lab_failure
from course.labtest.phase7.answers import list_of
from course.labtest.phase7.identify import identified
from course.labtest.phase7.rejection_mistakes import mistakes
from course.labtest.phase7.rejection_symptoms import RULE, Advice, Case, outcome, symptom_of_tokens

LARGEST = 1 - 2**-53  # the largest number that random() returns
ONLY_THE_DRAWS = "The only random numbers are those in `draws`: the same arguments give the same tokens."


def called(phase7: ModuleType, case: Case, dtype: torch.dtype = torch.float64) -> list[int]:
    """Return your tokens; the arguments must stay as they are."""
    vocab_size = len(case.target_probs[0])
    tensors = [
        torch.tensor([list(row) for row in rows], dtype=dtype).reshape(-1, vocab_size)
        for rows in (case.draft_probs, case.target_probs)
    ]
    copies = [tensor.clone() for tensor in tensors]
    drafts, draws = list(case.drafts), list(case.draws)
    with explained(case.describe(), rule=RULE):
        answer = phase7.rejection_sample(drafts, *tensors, draws)
    yours = list_of(answer, "rejection_sample")
    names = ("draft_probs", "target_probs", "draft_token_ids", "draws")
    unchanged = [*(torch.equal(now, then) for now, then in zip(tensors, copies, strict=True))]
    unchanged += [drafts == list(case.drafts), draws == list(case.draws)]
    expect_equal(
        {name: "as before" if same else "changed" for name, same in zip(names, unchanged, strict=True)},
        dict.fromkeys(names, "as before"),
        rule="rejection_sample only reads its arguments.",
        situation=case.describe(),
        hint="which of your operations works in place (`clamp_`, `-=`, an assignment to `tensor[...]`)?",
    )
    return yours


def check_rejection(phase7: ModuleType, case: Case, *, dtype: torch.dtype = torch.float64) -> None:
    """Compare the kept drafts, and whether the last token is one that may stand behind them."""
    yours = called(phase7, case, dtype)
    kept, allowed = outcome(case)
    if yours and yours[:-1] == kept and yours[-1] in allowed:
        return
    rule, hint = advice_on(phase7, [case], dtype) or symptom_of_tokens(case, yours)
    expected = str([*kept, *allowed]) if len(allowed) == 1 else f"{kept} and one of the tokens {_some(allowed)}"
    lab_failure(expected=expected, yours=yours, rule=rule, situation=case.describe(), hint=hint)


def advice_on(phase7: ModuleType, cases: Sequence[Case] = (), dtype: torch.dtype = torch.float64) -> Advice | None:
    """Return (rule, hint) of the one known mistake that answers like your function, here and in 200 random cases."""
    drawn = Case([0], [[0.5, 0.25, 0.25, 0.0]], [[0.0, 0.25, 0.25, 0.5], [0.25] * 4], [(0.5, 0.4), (0.5, 0.4)])
    for same in (drawn, Case([], [], [[0.25] * 4], [(0.5, 0.4)])):
        answers = {str(called(phase7, same)) for _ in range(20)}
        if len(answers) > 1:
            first, second = sorted(answers)[:2]
            hint = f"one call, made 20 times, returned {first} and {second}. Where does your code draw other numbers?"
            return ONLY_THE_DRAWS, hint
    rng = random.Random(1)
    tie = Case([0], [[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5], [0.0, 0.5, 0.5]], [(0.5, 0.0), (0.5, 0.0)])
    others = [tie, replace(tie, drafts=[], draft_probs=[], target_probs=tie.target_probs[1:], draws=tie.draws[1:])]
    others += [random_case(rng, rng.randint(0, 3)) for _ in range(200)]
    return identified((*cases, *others)[0], [*cases, *others], lambda other: called(phase7, other, dtype), mistakes)


def random_case(rng: random.Random, num_drafts: int) -> Case:
    """Return distributions in parts of 64, so that no number has to be rounded, and draws beside their borders."""
    vocab_size = rng.randint(2, 7)
    drafts = [rng.randrange(vocab_size) for _ in range(num_drafts)]
    drafter = [random_row(rng, vocab_size, token) for token in drafts]
    target = [random_row(rng, vocab_size) for _ in range(num_drafts + 1)]
    for place in range(num_drafts):
        if rng.random() < 0.3:
            target[place] = list(drafter[place])
    draws = [(rng.choice([0.0, (2 * rng.randrange(64) + 1) / 128]), rng.random()) for _ in range(num_drafts + 1)]
    return Case(drafts, drafter, target, draws)


def random_row(rng: random.Random, vocab_size: int, proposed: int | None = None) -> list[float]:
    """Return a distribution in parts of 64, some of them perhaps 0, but not that of the proposed token."""
    possible = rng.sample(range(vocab_size), rng.randint(1, vocab_size))
    if proposed is not None:
        possible.append(proposed)
    parts = Counter([*possible, *rng.choices(possible, k=64 - len(possible))])
    return [parts[token] / 64 for token in range(vocab_size)]


def _some(tokens: Sequence[int]) -> str:
    return str(list(tokens)) if len(tokens) <= 12 else f"{str(list(tokens[:12]))[:-1]}, ...]"
