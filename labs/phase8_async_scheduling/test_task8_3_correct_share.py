"""Graded tests of task 8.3: a share of a plan that was made ahead, as it has to be computed."""

import random
from collections.abc import Sequence
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.moments import Living
from mini_vllm_labs.grading.labtest.phase8.shares import PlannedShare, check_share


@pytest.mark.parametrize(("start", "num_known"), [(0, 3), (16, 16), (48, 2), (7, 1)])
@pytest.mark.parametrize("needs_token", [True, False])
def test_a_share_without_drafts_is_computed_as_planned(
    phase8: ModuleType, start: int, num_known: int, needs_token: bool
) -> None:
    check_share(phase8, PlannedShare(start, num_known, 0, 0, []), needs_token=needs_token)


@pytest.mark.parametrize("num_rejected", [2, 1, 5])
@pytest.mark.parametrize("num_stand_ins", [5, 0])
def test_rejected_drafts_move_the_start(phase8: ModuleType, num_rejected: int, num_stand_ins: int) -> None:
    check_share(phase8, PlannedShare(20, 1, num_stand_ins, num_rejected, [31, 32, 33, 34, 35][:num_stand_ins]))


@pytest.mark.parametrize(
    ("num_stand_ins", "drafts"),
    [
        (2, [8, 9]),
        (1, [9]),
        (3, [7, 7, 7]),
        (3, [5, 0, 6]),  # 0 is a token like any other
        (2, [0, 0]),
        (2, (8, 9)),
    ],
)
def test_drafts_take_the_places_of_stand_ins(phase8: ModuleType, num_stand_ins: int, drafts: Sequence[int]) -> None:
    check_share(phase8, PlannedShare(9, 1, num_stand_ins, 0, drafts))


@pytest.mark.parametrize(("num_stand_ins", "drafts"), [(1, [8, 9]), (2, [4, 0, 6, 5]), (0, [8]), (0, [8, 9])])
def test_the_first_drafts_fill_the_places(phase8: ModuleType, num_stand_ins: int, drafts: Sequence[int]) -> None:
    check_share(phase8, PlannedShare(9, 1, num_stand_ins, 0, drafts))


@pytest.mark.parametrize(("num_stand_ins", "drafts"), [(4, [6]), (2, [8]), (4, [0]), (3, [0, 9]), (1, []), (4, [])])
def test_a_place_without_a_draft_is_left_out(phase8: ModuleType, num_stand_ins: int, drafts: Sequence[int]) -> None:
    check_share(phase8, PlannedShare(9, 1, num_stand_ins, 0, drafts))


@pytest.mark.parametrize("drafts", [[], [8], [8, 9], [8, 9, 0]])
@pytest.mark.parametrize("num_rejected", [1, 2])
def test_rejected_drafts_and_new_ones_are_two_things(
    phase8: ModuleType, num_rejected: int, drafts: Sequence[int]
) -> None:
    check_share(phase8, PlannedShare(6, 1, 2, num_rejected, drafts))


@pytest.mark.parametrize("seed", range(4))
def test_random_shares(phase8: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    living = Living(rng)
    for _ in range(200):
        num_stand_ins = rng.choice([0, 1, 2, 5, 18])
        num_rejected = rng.randint(0, 5)
        drafts = [rng.choice([rng.randint(0, 40), 151_643]) for _ in range(rng.choice([rng.randint(0, 6), 17]))]
        num_known = 1 if num_stand_ins else rng.choice([rng.randint(1, 30), 4000])
        plan = PlannedShare(rng.choice([rng.randint(9, 60), 9000]), num_known, num_stand_ins, num_rejected, drafts)
        check_share(phase8, plan, needs_token=bool(num_stand_ins) or rng.random() < 0.5, living=living)
