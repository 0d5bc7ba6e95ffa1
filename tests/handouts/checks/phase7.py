"""Functions for the checks in phase 7's handout: the reference on small examples, and a GPU's bounds."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import torch

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.plays.support import make_request
from mini_vllm_labs.simulation.cost_model import roofline
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.roofline import saturation_batch
from solutions.phase7_speculative_decoding import (
    SpeculativeScheduling,
    accept_drafts,
    propose_by_lookup,
    rejection_sample,
    select_logits_rows,
)
from tests.handouts.checks.recorded import of_the_course

GPU = find_gpu("H100")
BOUND = roofline(GPU, find_model_shape("Llama-3.1-8B"))
DRAFTER, TARGET = (0.5, 0.3, 0.2), (0.2, 0.5, 0.3)


def step_ms(num_tokens: int) -> tuple[float, float]:
    """Return how many milliseconds one step spends reading weights and how many computing, to one decimal place."""
    num_bytes, flops = BOUND.work(num_tokens, 0, 0, num_tokens)
    return round(1000 * num_bytes / BOUND.bandwidth, 1), round(1000 * flops / BOUND.flop_rate, 1)


def tokens_per_step(acceptance: float, num_drafts: int) -> float:
    """Return the mean number of tokens per step if each draft is right with this probability."""
    return round(sum(acceptance**number for number in range(num_drafts + 1)), 2)


def balance() -> int:
    """Return the number of tokens at which computing takes as long as reading, for this model and any other."""
    num_bytes, flops = BOUND.work(1, 0, 0, 1)
    found = round(num_bytes / BOUND.bandwidth * BOUND.flop_rate / flops)
    assert found == round(saturation_batch(GPU))
    return found


def scheduled(num_tokens: int, computed: int, num_drafts: int, budget: int, num_sampled: int) -> tuple[int, int, int]:
    """Take a decoding request through a step; return (drafts scheduled, final computed tokens, final tokens)."""
    scheduling = SpeculativeScheduling(num_drafts, False)
    request = make_request("A", 1, num_output_tokens=num_tokens - 1, num_computed_tokens=computed)
    request.spec_token_ids = [9] * num_drafts
    request.num_computed_tokens += min(num_tokens + num_drafts - computed, budget)
    drafts = scheduling.schedule_drafts(request)
    scheduling.roll_back(request, len(drafts), num_sampled)
    request.all_token_ids += [9] * num_sampled
    return len(drafts), request.num_computed_tokens, request.num_tokens


def rows(*shares: tuple[int, int, bool]) -> list[int]:
    """Return the rows of requests given as (scheduled tokens, drafts among them, needs a token)."""
    params = SamplingParams()
    return select_logits_rows(
        [
            ScheduledRequest(Request(str(number), [1] * 50, params), 0, size, [1], needs, [7] * drafts)
            for number, (size, drafts, needs) in enumerate(shares)
        ]
    )


def usable(num_hit_blocks: int) -> int:
    """Return how many blocks of a hit a drafter with a KV cache can use."""
    return len(SpeculativeScheduling(4, True).usable_hit_blocks([*range(num_hit_blocks)]))


@cache
def shares(num_keep: int = 20, num_choose: int = 30) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return each token's probability in the example: as a kept draft, as a replacement, and in total."""
    kept, replaced = ([Fraction(0)] * 3 for _ in range(2))
    for draft, weight in enumerate(DRAFTER):
        for keep in range(num_keep):
            for choose in range(num_choose):
                draws = [((keep + 0.5) / num_keep, (choose + 0.5) / num_choose), (0.5, 0.5)]
                answer = rejection_sample([draft], torch.tensor([DRAFTER]), torch.tensor([TARGET, TARGET]), draws)
                share = Fraction(str(weight)) / (num_keep * num_choose)
                (kept if len(answer) == 2 else replaced)[answer[0]] += share
    total = [one + other for one, other in zip(kept, replaced, strict=True)]
    first, second, third = (tuple(round(float(share), 6) for share in part) for part in (kept, replaced, total))
    return first, second, third


def sampled_again(draft: Sequence[float], target: Sequence[float]) -> tuple[float, ...]:
    """Return the token percentages if a rejected draft is replaced by a token drawn from the target itself."""
    kept = [min(p, q) for p, q in zip(target, draft, strict=True)]
    return tuple(round(100 * (one + (1 - sum(kept)) * p)) for one, p in zip(kept, target, strict=True))


def num_traces(phases: str) -> int:
    """Return how many recorded traces are in scope for the reference's `phases` and need phase 7."""
    lineup = parse_lineup(f"solution:{phases}")
    return sum(7 in one.electives and one.out_of_scope(lineup) is None for one in of_the_course())
