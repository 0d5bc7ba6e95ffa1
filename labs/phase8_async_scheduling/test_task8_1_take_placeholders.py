"""Graded tests of task 8.1: what a step takes that samples."""

import random
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.moments import Living, varied
from mini_vllm_labs.grading.labtest.phase8.cases import (
    ASKED,
    STAND_INS,
    check_fill,
    check_take,
    request_with,
    scheduling_of,
    shown,
)
from mini_vllm_labs.pictures.text import counted


@pytest.mark.parametrize(
    ("num_prompt", "num_outputs", "placeholders", "computed"),
    [
        (3, 0, 0, 3),  # a whole prompt
        (1, 0, 0, 1),
        (50, 0, 0, 50),  # the last chunk of a prompt
        (10, 3, 0, 13),  # the last chunk after a preemption
        (3, 2, 0, 5),  # a decode, nothing in flight
        (3, 0, 1, 4),  # a decode, the first token in flight
        (3, 4, 1, 8),
        (2000, 47, 1, 2048),
        (100_000, 5000, 1, 105_001),
    ],
)
@pytest.mark.parametrize("most", [3, 1, 0])
def test_a_step_that_samples_takes_one_placeholder(
    phase8: ModuleType, num_prompt: int, num_outputs: int, placeholders: int, computed: int, most: int
) -> None:
    request = request_with(num_prompt, num_outputs, computed=computed, placeholders=placeholders)
    check_take(scheduling_of(phase8, most), request, 0, most)


@pytest.mark.parametrize(
    ("num_prompt", "num_outputs", "computed"),
    [
        (50, 0, 16),
        (50, 0, 48),
        (50, 0, 49),
        (2, 0, 1),
        (10, 3, 4),
        (10, 3, 10),  # a resumed request at the end of its prompt
        (10, 3, 11),
        (10, 3, 12),
    ],
)
@pytest.mark.parametrize("most", [2, 0])
def test_a_chunk_before_the_last_known_token_takes_nothing(
    phase8: ModuleType, num_prompt: int, num_outputs: int, computed: int, most: int
) -> None:
    check_take(scheduling_of(phase8, most), request_with(num_prompt, num_outputs, computed=computed), 0, most)


@pytest.mark.parametrize(
    ("num_outputs", "placeholders", "computed", "num_drafts", "most"),
    [
        (1, 4, 10, 2, 5),  # 4 tokens known, 4 expected, 2 drafts
        (0, 1, 6, 2, 2),  # the prompt's step in flight
        (1, 3, 9, 2, 2),  # a step with drafts in flight, and now another one
        (1, 3, 8, 1, 2),  # the budget has cut one draft off
        (1, 3, 7, 0, 2),  # and both
        (3, 0, 8, 2, 2),  # nothing in flight
        (3, 4, 14, 4, 4),
        (3, 4, 11, 1, 4),
        (3, 6, 15, 3, 5),
        (9, 8, 20, 0, 7),
        (9, 34, 62, 16, 16),  # a step with 16 drafts and one with 16 more
    ],
)
def test_every_draft_has_a_placeholder_too(
    phase8: ModuleType, num_outputs: int, placeholders: int, computed: int, num_drafts: int, most: int
) -> None:
    request = request_with(3, num_outputs, computed=computed, placeholders=placeholders)
    check_take(scheduling_of(phase8, most), request, num_drafts, most)


@pytest.mark.parametrize("seed", range(3))
def test_random_moments_of_living_requests(phase8: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    living, most = Living(rng), rng.choice([0, 2, 5, 16])
    scheduling = scheduling_of(phase8, most)
    for _ in range(100):
        num_prompt, num_outputs = rng.randint(1, 40), rng.choice([0, rng.randint(1, 40)])
        num_drafts = rng.randint(0, most)
        places = rng.choice([0, 1, 1 + most])
        computed = num_prompt + num_outputs + places + num_drafts
        if not num_drafts and not places:  # only a prompt is computed in parts
            computed = rng.choice([computed, computed - 1, num_prompt, rng.randint(1, computed)])
        moment = request_with(num_prompt, num_outputs, computed=computed, placeholders=places, name=rng.choice("AAB"))
        request = living.now(varied(moment, rng, keep=("num_output_placeholders", "spec_token_ids")))
        if rng.random() < 0.3:
            check_fill(scheduling, request, rng.randint(0, places))
        else:
            check_take(scheduling, request, num_drafts, most)


@pytest.mark.parametrize("most", [5, 2, 1])
def test_each_request_has_stand_ins_of_its_own(phase8: ModuleType, most: int) -> None:
    scheduling = scheduling_of(phase8, most)
    requests = [request_with(3, computed=3, name=name) for name in "ABC"]
    first, second, third = requests
    scheduling.take_placeholders(first, 0)
    scheduling.take_placeholders(second, 0)
    if isinstance(first.spec_token_ids, list):
        first.spec_token_ids[:] = [17]
    scheduling.take_placeholders(third, 0)
    yours = {"stand-ins of B": shown(second.spec_token_ids), "stand-ins of C": shown(third.spec_token_ids)}
    is_shared = [17] in yours.values()
    expect_equal(
        yours,
        {"stand-ins of B": [-1] * most, "stand-ins of C": [-1] * most},
        rule=f"{STAND_INS} Every request has a list of its own, made anew each time.",
        situation=f"A, B and C have at most {counted(most, 'draft')}; A and B took theirs, A's list was changed to "
        "[17], then C took its own",
        hint="at which moment is the list made that you assign, and how many requests hold it?"
        if is_shared
        else ASKED["spec_token_ids"],
    )
