"""Graded tests for task 7.6: single calls."""

import random
from itertools import product
from types import ModuleType

import pytest
import torch

from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.phase6.devices import call_on_a_device
from mini_vllm_labs.grading.labtest.phase6.threads import one_thread as one_thread
from mini_vllm_labs.grading.labtest.phase7.rejections import (
    KEPT,
    LARGEST,
    Rejection,
    called,
    check_rejection,
    check_repeats,
    random_case,
)
from mini_vllm_labs.grading.labtest.recorded import Answers

DRAFTER, TARGET = [0.5, 0.25, 0.25], [0.2, 0.25, 0.55]  # only token 2 is more likely under the target model
SAYS_1 = [0.0, 1.0, 0.0]


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.39, 0.41, 0.9, LARGEST])
@pytest.mark.parametrize("draft", [0, 1, 2])
def test_a_draft_is_kept_with_probability_target_over_draft(
    phase7: ModuleType, answers: Answers, draft: int, keep: float
) -> None:
    # Token 0: 0.2 / 0.5 = 0.4. Token 1 is equally likely under both models, and token 2 is more likely under the target
    # model.
    for choose in (0.0, 0.5, LARGEST):
        case = Rejection([draft], [DRAFTER], [TARGET, SAYS_1], [(keep, choose), (0.5, 0.5)])
        check_rejection(phase7, answers, case)


def test_a_token_that_the_target_never_says_is_never_kept(phase7: ModuleType, answers: Answers) -> None:
    for keep in (0.0, 0.5):
        check_rejection(
            phase7, answers, Rejection([1], [[0.5, 0.5, 0.0]], [[0.5, 0.0, 0.5], SAYS_1], [(keep, 0.3), (0.5, 0.5)])
        )
        check_rejection(
            phase7, answers, Rejection([0], [[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [(keep, 0.0), (0.5, 0.5)])
        )


def test_drafts_of_a_drafter_that_is_the_target_are_always_kept(phase7: ModuleType, answers: Answers) -> None:
    row = [0.1, 0.7, 0.2]
    for keep in (0.0, 0.5, LARGEST):
        drafts = [0, 1, 2, 0]
        check_rejection(phase7, answers, Rejection(drafts, [row] * 4, [*[row] * 4, SAYS_1], [(keep, 0.5)] * 5))


def test_each_draft_has_its_own_rows_and_draws(phase7: ModuleType, answers: Answers) -> None:
    rows = [DRAFTER, DRAFTER, DRAFTER], [TARGET, TARGET, TARGET, SAYS_1]
    for keeps in ((0.1, 0.1, 0.1), (0.1, 0.9, 0.1), (0.9, 0.1, 0.1), (0.1, 0.1, 0.9)):
        draws = [*((keep, 1 - keep) for keep in keeps), (0.9, 0.2)]
        check_rejection(phase7, answers, Rejection([0, 0, 0], *rows, draws))
        check_rejection(phase7, answers, Rejection([2, 0, 1], *rows, draws))
    sharp = [[0.9, 0.1], [0.1, 0.9]]
    check_rejection(phase7, answers, Rejection([0, 1], sharp, [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [(0.5, 0.5)] * 3))
    check_rejection(phase7, answers, Rejection([0, 1], sharp, [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [(0.6, 0.5)] * 3))


def test_behind_kept_drafts_comes_a_token_of_the_last_row(phase7: ModuleType, answers: Answers) -> None:
    target = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for keep, choose in ((0.0, 0.0), (0.5, 0.9), (LARGEST, LARGEST)):
        check_rejection(phase7, answers, Rejection([0, 2, 1], target[:3], target, [(keep, choose)] * 4))
        check_rejection(phase7, answers, Rejection([0, 2], target[:2], target[:3], [(keep, choose)] * 3))


def test_without_drafts_the_only_row_is_sampled(phase7: ModuleType, answers: Answers) -> None:
    for choose in (0.0, 0.5, LARGEST):
        check_rejection(phase7, answers, Rejection([], [], [[0.0, 1.0, 0.0]], [(0.5, choose)]))
        check_rejection(phase7, answers, Rejection([], [], [[1.0, 0.0, 0.0]], [(0.5, choose)]))


@pytest.mark.parametrize("choose", [0.0, LARGEST])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_the_smallest_and_the_largest_draw_choose_a_possible_token(
    phase7: ModuleType, answers: Answers, choose: float, dtype: torch.dtype
) -> None:
    drafter, target = [0.25, 0.25, 0.5, 0.0], [0.0, 0.5, 0.25, 0.25]
    draws = [(0.9, choose), (0.5, choose)]
    check_rejection(phase7, answers, Rejection([2], [drafter], [target, drafter], draws), dtype=dtype)
    generator = torch.Generator().manual_seed(7)
    many = torch.rand(2000, generator=generator)
    many[:5] = many[-5:] = 0
    row = (many / many.sum()).tolist()
    check_rejection(phase7, answers, Rejection([], [], [row], [(0.5, choose)]), dtype=dtype)


def test_rounding_may_leave_no_surplus(phase7: ModuleType) -> None:
    # Both rows add up to 1 within float32 precision, and no token is more likely under the target model.
    target, drafters = [0.0, 0.5, 0.5], ([2**-20, 0.5, 0.5], [0.0, 0.5 + 2**-20, 0.5])
    for choose, (draft, drafter) in product((0.0, 0.4, LARGEST), enumerate(drafters)):
        case = Rejection([draft], [drafter], [target, SAYS_1], [(LARGEST, choose), (0.5, 0.5)])
        yours = called(phase7, case)
        is_right = len(yours) == 1 and yours[0] in (1, 2)
        expect_equal(
            is_right,
            True,
            rule="If rounding leaves target - drafter at 0 everywhere, the replacement is drawn from the target.",
            situation=[*case.describe(), f"yours are {yours}; compared: is it one token, and 1 or 2?"],
            hint="target - drafter is above 0 for no token here. Which token does your code take, and why?"
            if len(yours) < 2
            else KEPT,
        )


@pytest.mark.parametrize("part", [2**-8, 2**-12, 2**-22])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_a_small_surplus_is_a_surplus(phase7: ModuleType, answers: Answers, part: float, dtype: torch.dtype) -> None:
    drafter, target = [0.5 + part, 0.25, 0.25 - part], [0.5, 0.25, 0.25]
    beside_a_large_one = [0.75, 0.25, 0.0], [0.25, 0.75 - part, part]
    for choose in (0.0, 0.4, LARGEST):
        for one in ((drafter, target), beside_a_large_one):
            case = Rejection([0], [one[0]], [one[1], SAYS_1], [(LARGEST, choose), (0.5, 0.5)])
            check_rejection(phase7, answers, case, dtype=dtype)


@pytest.mark.parametrize("keep", [0.2, 0.3])
@pytest.mark.parametrize("part", [2**-8, 2**-12, 2**-22])
def test_an_unlikely_draft_is_kept_like_any_other(
    phase7: ModuleType, answers: Answers, part: float, keep: float
) -> None:
    drafter, target = [part, 1 - part, 0.0], [part / 4, 1 - part / 4, 0.0]
    check_rejection(phase7, answers, Rejection([0], [drafter], [target, SAYS_1], [(keep, 0.5), (0.5, 0.5)]))


def test_rejection_makes_its_tensors_on_the_device_of_its_arguments(phase7: ModuleType) -> None:
    # In one call, one draft is kept and one is replaced; in the other, all are kept.
    tensors = [torch.tensor([DRAFTER, DRAFTER]), torch.tensor([TARGET, TARGET, SAYS_1])]
    for drafts, keep in (([2, 0], 0.9), ([2, 2], 0.1), ([0, 1], 0.9)):
        case = Rejection(drafts, [DRAFTER] * 2, [TARGET, TARGET, SAYS_1], [(keep, 0.3)] * 3)
        call_on_a_device(
            phase7.rejection_sample,
            drafts,
            *tensors,
            case.draws,
            name="rejection_sample",
            situation="\n".join(case.describe()),
        )


def test_large_vocabularies_and_many_drafts(phase7: ModuleType, answers: Answers) -> None:
    row = [0.0] * 60_000
    drafter, target, last = list(row), list(row), [*row[1:], 1.0]
    drafter[5], drafter[59_999], target[59_999], target[300] = 0.75, 0.25, 0.25, 0.75
    for choose in (0.0, 0.5, LARGEST):
        check_rejection(phase7, answers, Rejection([5], [drafter], [target, last], [(0.3, choose), (0.5, 0.5)]))
        check_rejection(phase7, answers, Rejection([59_999], [drafter], [target, last], [(0.3, 0.5), (0.5, choose)]))
    for keep in (0.1, 0.9):
        draws = [(0.1, 0.5)] * 15 + [(keep, 0.5)] * 2
        check_rejection(phase7, answers, Rejection([0] * 16, [DRAFTER] * 16, [*[TARGET] * 16, SAYS_1], draws))


def test_the_same_arguments_give_the_same_tokens(phase7: ModuleType) -> None:
    check_repeats(phase7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_random_rows_against_the_rule(phase7: ModuleType, answers: Answers, seed: int, dtype: torch.dtype) -> None:
    rng = random.Random(seed)
    for _ in range(150):
        check_rejection(phase7, answers, random_case(rng, rng.randint(0, 4)), dtype=dtype)
