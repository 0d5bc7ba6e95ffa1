"""Functions for the `<!-- check: ... -->` comments in the phase 8 handout: small runs of the reference."""

from collections.abc import Sequence
from functools import cache

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.plays.support import make_request
from solutions import phase8_async_scheduling as reference
from solutions.phase8_async_scheduling import PlaceholderScheduling
from tests.handouts.checks.pipeline import Pipeline
from tests.handouts.checks.recorded import of_the_course

Row = tuple[int, int, int, int]


class NeverOver(PlaceholderScheduling):
    """Raised if the rule for max_tokens is missing."""

    def is_surely_over(self, request: Request) -> bool:
        return False


def lanes(num_steps: int, plan_ms: int, compute_ms: int) -> tuple[int, int]:
    """Return how long steps take one after the other, and with one step in flight, in milliseconds."""
    planned = computed = before = 0
    for _ in range(num_steps):
        planned = max(planned, before) + plan_ms  # the results of the step before last have arrived
        before = computed
        computed = max(computed, planned) + compute_ms
    return num_steps * (plan_ms + compute_ms), computed


def rows(
    num_prompt: int, max_tokens: int, num_drafts: int = 0, accepted: Sequence[int] = (), *, rule: bool = True
) -> list[Row]:
    """Return (known, tokens planned, computed, placeholders) for each step, once it has been planned."""
    request = make_request("A", num_prompt, max_tokens=max_tokens)
    pipeline = Pipeline((PlaceholderScheduling if rule else NeverOver)(num_drafts), request)
    found: list[Row] = []
    for number in range(99):
        num_planned = pipeline.plan(100)
        found.append((request.num_tokens, num_planned, request.num_computed_tokens, request.num_output_placeholders))
        if number:
            pipeline.update(accepted[number - 1] if number <= len(accepted) else 0)
        if pipeline.is_done:
            break
    return found


def after(num_prompt: int, num_steps: int, num_drafts: int, accepted: Sequence[int]) -> tuple[int, int, int]:
    """Return (known, computed, placeholders) when the results of the step before the last have arrived."""
    request = make_request("A", num_prompt)
    pipeline = Pipeline(PlaceholderScheduling(num_drafts), request)
    for number in range(num_steps):
        pipeline.plan(100)
        if number:
            pipeline.update(accepted[number - 1])
    return request.num_tokens, request.num_computed_tokens, request.num_output_placeholders


def over(num_prompt: int, max_tokens: int, known: int, computed: int, placeholders: int) -> bool:
    request = make_request(
        "A", num_prompt, num_output_tokens=known - num_prompt, num_computed_tokens=computed, max_tokens=max_tokens
    )
    request.num_output_placeholders = placeholders
    return PlaceholderScheduling(0).is_surely_over(request)


def corrected(start: int, size: int, places: int, rejected: int, drafts: Sequence[int]) -> tuple[int, int, list[int]]:
    """Return (start, tokens, drafts) for a scheduled request once it has been corrected."""
    share = ScheduledRequest(
        make_request("A", 3, num_computed_tokens=start + size), start, size, [1], True, [-1] * places
    )
    result = reference.correct_share(share, rejected, drafts)
    return result.num_computed_tokens, result.num_scheduled_tokens, list(result.draft_token_ids)


def traces_for(*electives: int) -> int:
    """Return how many recorded traces need phase 8, and otherwise only phases 1 to 5 and these electives."""
    team = parse_lineup(",".join(["solution:1-5", *(f"solution:{phase}" for phase in electives)]))
    found = [one for one in of_the_course() if one.line["config"]["async_scheduling"]]
    return len([one for one in found if not one.out_of_scope(team)])
