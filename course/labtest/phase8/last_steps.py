"""Rows of answers of `is_surely_over`, and the mistakes that give such rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course.labtest.expect import expect_equal, explained
from course.labtest.phase8.cases import expect_unchanged, facts, request_with
from course.labtest.phase8.symptoms import Advice, counted
from course.labtest.support import fields_of
from mini_vllm.core.request import Request
from mini_vllm.seams.electives import AsyncScheduling

RULE = (
    "A request is surely over if a step in flight brings at least one token for it and that one is the last that "
    "max_tokens allows."
)
NO_STEP = "Without a placeholder nothing is in flight that could end the request, so it is never over."
ONE_IS_CERTAIN = (
    "A step in flight brings one token for certain. Those for its drafts come only if the drafts are right."
)
ALL_TOKENS = "max_tokens counts generated tokens: with the prompt, a request has at most prompt + max_tokens."
ONE_LATE = "The step in flight that brings the last token is followed by no other."
ONE_EARLY = "A request whose step in flight does not reach max_tokens for certain needs another step."


@dataclass(frozen=True, slots=True)
class Counters:
    """What a formula is made of: tokens known, computed and expected, the prompt, and max_tokens."""

    known: int
    computed: int
    expected: int
    prompt: int
    max_tokens: int

    @classmethod
    def of(cls, request: Request) -> "Counters":
        return cls(
            request.num_tokens,
            request.num_computed_tokens,
            request.num_output_placeholders,
            request.num_prompt_tokens,
            request.sampling_params.max_tokens,
        )

    @property
    def most(self) -> int:
        return self.prompt + self.max_tokens


Formula = Callable[[Counters], bool]
NEVER = (ONE_LATE, "your answer is yes for none of these. For which one does the step in flight bring the last token?")
MISTAKES: list[tuple[Formula, str, str]] = [
    (
        lambda c: c.computed + 2 - c.expected >= c.most,
        NO_STEP,
        "your answer follows from the computed tokens where no token is expected. Which step would bring the last one?",
    ),
    (
        lambda c: c.expected > 0 and c.computed + 3 - c.expected >= c.most,
        ONE_EARLY,
        "your answer is yes one token too early. Does the step in flight bring more than one for certain?",
    ),
    (
        lambda c: c.expected > 0 and c.computed + 2 - c.expected >= c.max_tokens,
        ALL_TOKENS,
        "your answers follow from max_tokens alone. Is the prompt among your computed tokens?",
    ),
    (
        lambda c: c.expected > 0,
        NO_STEP,
        "your answer is yes wherever a token is expected. Is any such token the last one?",
    ),
]
MISTAKES_WITH_DRAFTS: list[tuple[Formula, str, str]] = [
    (
        lambda c: c.expected > 0 and c.computed + 2 >= c.most,
        ONE_IS_CERTAIN,
        "your answers follow from the computed tokens alone. What is counted there that nobody has sampled yet?",
    ),
    (
        lambda c: c.expected > 0 and c.computed >= c.most,
        ONE_IS_CERTAIN,
        "your answers follow from the computed tokens alone. What is counted there that nobody has sampled yet?",
    ),
    (
        lambda c: c.known + c.expected >= c.most,
        ONE_IS_CERTAIN,
        "your answers are right only if every draft in flight is. What if none is?",
    ),
    (
        lambda c: c.computed + c.expected >= c.most,
        ONE_IS_CERTAIN,
        "your answers are those of computed + placeholders. Is what is in flight among the computed tokens already?",
    ),
]


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
    """Ask about each of these requests, and compare all answers at once."""
    lines = [why, f"the prompt has {counted(requests[0].num_prompt_tokens, 'token')}; the computed tokens include it"]
    yours: list[bool] = []
    for request in requests:
        before = fields_of(request)
        with explained([why, facts(request)], rule=RULE):
            yours.append(bool(scheduling.is_surely_over(request)))
        expect_unchanged(request, before, method="is_surely_over", situation=facts(request))
    labels = [label(request) for request in requests]
    rule, hint = symptom_of_row([Counters.of(request) for request in requests], yours, list(expected)) or (
        RULE,
        "how many tokens are known at least when the step in flight is done, and how many may there be at most?",
    )
    expect_equal(
        dict(zip(labels, yours, strict=True)),
        dict(zip(labels, expected, strict=True)),
        rule=rule,
        situation=lines,
        hint=hint,
    )


def symptom_of_row(counters: Sequence[Counters], yours: list[bool], expected: list[bool]) -> Advice | None:
    """Return (rule, hint) if one mistake explains all answers of a row."""
    if yours == expected:
        return None
    if not any(yours):
        return NEVER
    has_drafts = any(one.expected > 1 for one in counters)
    mistakes = MISTAKES + MISTAKES_WITH_DRAFTS if has_drafts else MISTAKES
    fitting = {(rule, hint) for formula, rule, hint in mistakes if [formula(one) for one in counters] == yours}
    return fitting.pop() if len(fitting) == 1 else None
