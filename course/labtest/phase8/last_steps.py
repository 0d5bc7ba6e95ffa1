"""Rows of answers of `is_surely_over`: asked, compared and explained."""

from collections.abc import Sequence

from course.labtest.expect import expect_equal, expect_unchanged, explained
from course.labtest.phase8.cases import OWNER, facts, request_with
from course.labtest.support import fields_of
from course.views.text import counted
from mini_vllm.core.electives import AsyncScheduling
from mini_vllm.core.request import Request

RULE = (
    "A request is surely over if a step in flight brings at least one token for it and that one is the last that "
    "max_tokens allows."
)


def in_flight(num_prompt: int, num_outputs: int, max_tokens: int, num_drafts: int, most: int) -> Request:
    """Return a request with one step in flight, which samples and verifies drafts."""
    num_tokens = num_prompt + num_outputs
    return request_with(
        num_prompt,
        num_outputs,
        computed=num_tokens + num_drafts,
        placeholders=1 + num_drafts,
        max_tokens=max_tokens,
        drafts=[-1] * most,
    )


def label(request: Request) -> str:
    return (
        f"{request.num_output_tokens} generated known, {request.num_computed_tokens} computed, "
        f"{counted(request.num_output_placeholders, 'placeholder')}"
    )


def check_row(scheduling: AsyncScheduling, requests: Sequence[Request], expected: Sequence[bool], why: str) -> None:
    """Ask about each of these requests, then compare all answers together."""
    lines = [why, f"the prompt has {counted(requests[0].num_prompt_tokens, 'token')}; the computed tokens include it"]
    yours: list[bool] = []
    for request in requests:
        before = fields_of(request)
        with explained([why, facts(request)], rule=RULE):
            yours.append(bool(scheduling.is_surely_over(request)))
        expect_unchanged(
            fields_of(request),
            before,
            rule=f"is_surely_over answers a question and changes nothing. {OWNER}",
            situation=facts(request),
            hint="which line of yours assigns to the request, or to a list that belongs to it?",
        )
    labels = [label(request) for request in requests]
    expect_equal(
        dict(zip(labels, yours, strict=True)),
        dict(zip(labels, expected, strict=True)),
        rule=RULE,
        situation=lines,
        hint="for which of these will all tokens be known once the step in flight has brought what is certain?",
    )
