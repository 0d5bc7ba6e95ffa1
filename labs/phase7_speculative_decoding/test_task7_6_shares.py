"""Graded tests for task 7.6: tokens occur as often as with the target alone."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.phase6.threads import one_thread as one_thread
from mini_vllm_labs.grading.labtest.phase7.distributions import (
    Distributions,
    Sampler,
    check_chi_square,
    check_exact_shares,
    check_last_shares,
)

OF_THE_HANDOUT = Distributions((5, 3, 2), (2, 5, 3), 20, 30)
FIRST = Distributions((32, 13, 6, 6, 4, 3), (16, 20, 4, 12, 0, 12), 30, 22)
SECOND = Distributions((20, 8, 8, 4, 16, 8), (10, 16, 8, 14, 8, 8), 20, 18)
THE_SAME = Distributions((3, 1, 4), (1, 3, 4), 6, 4)
NEARLY_THE_SAME = Distributions((250, 125, 124, 1), (248, 126, 125, 1), 125, 4)


def test_the_example_of_the_handout_has_the_shares_of_the_target(phase7: ModuleType) -> None:
    check_exact_shares(Sampler(phase7, OF_THE_HANDOUT), "the handout's vocabulary of three tokens, one draft")


@pytest.mark.parametrize("num_kept", [1, 2, 3, 6])
def test_later_tokens_have_the_shares_of_the_target_too(phase7: ModuleType, num_kept: int) -> None:
    for distributions in (THE_SAME, OF_THE_HANDOUT):
        sampler = Sampler(phase7, distributions, num_kept=num_kept)
        check_exact_shares(sampler, f"draft number {num_kept + 1}; those before it are kept")


def test_a_small_surplus_is_drawn_from_like_any_other(phase7: ModuleType) -> None:
    check_exact_shares(
        Sampler(phase7, NEARLY_THE_SAME), "a target that has 1 part in 500 more of two tokens; one draft"
    )


@pytest.mark.parametrize("num_drafts", [0, 1, 3, 9])
def test_the_token_behind_kept_drafts_has_the_shares_of_the_last_row(phase7: ModuleType, num_drafts: int) -> None:
    check_last_shares(phase7, num_drafts)


@pytest.mark.parametrize("seed", [1, 2])
def test_100_000_first_tokens_have_the_targets_distribution(phase7: ModuleType, seed: int) -> None:
    check_chi_square(Sampler(phase7, FIRST), seed, "one draft; counted: the first token")


@pytest.mark.parametrize("seed", [3, 4])
def test_100_000_second_tokens_have_the_targets_distribution(phase7: ModuleType, seed: int) -> None:
    sampler = Sampler(phase7, SECOND, num_kept=1)
    check_chi_square(sampler, seed, "two drafts, the first one kept; counted: the second token")
