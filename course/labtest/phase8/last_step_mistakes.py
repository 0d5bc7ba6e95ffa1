"""Known mistakes in `is_surely_over`, as formulas, and what a wrong answer shows by itself."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from course.labtest.phase8.symptoms import Advice
from course.views.text import counted
from mini_vllm.core.request import Request

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

RIGHT_ONES = "your answers are right only if every draft in flight is. What if none is?"


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


def random_counters(rng: random.Random) -> Counters:
    """Return a request in a prompt, left out, or with one or two steps in flight, with and without drafts."""
    prompt, max_tokens = rng.randint(1, 8), rng.randint(1, 8)
    outputs, drafts = rng.randint(0, max_tokens - 1), rng.choice([0, 0, 1, 2, 4])
    known = prompt + outputs
    computed, expected = rng.choice(
        [(rng.randint(0, known - 1), 0), (known - 1, 0), (known, 1), (known + drafts, 1 + drafts)]
    )
    return Counters(known, computed, expected, prompt, max_tokens)


def last_step_mistakes(c: Counters) -> Iterator[tuple[bool, str, str]]:
    """Yield the answer of a formula with a mistake, the rule that it breaks, and a hint."""
    brings, known_then = c.expected > 0, c.computed + 2 - c.expected
    no_step = "{} where no token is expected. Which step would bring the last one?"
    yield known_then >= c.most, NO_STEP, no_step.format("your answer follows from the computed tokens, also")
    from_known = "your answers are those of known + 1. Where no token is expected, which step would bring the last one?"
    yield c.known + 1 >= c.most, NO_STEP, from_known
    yield c.known + c.expected >= c.most, *((ONE_IS_CERTAIN, RIGHT_ONES) if c.expected > 1 else (NO_STEP, from_known))
    for all_right in (c.known + c.expected >= c.most, c.computed + 1 >= c.most):
        yield brings and all_right, ONE_IS_CERTAIN, RIGHT_ONES
    alone = "your answers are those of computed + 2. Which of the computed tokens are not sampled yet?"
    yield brings and c.computed + 2 >= c.most, ONE_IS_CERTAIN, alone
    yield c.computed + 2 >= c.most, ONE_IS_CERTAIN, alone
    plus = "what is in flight is among the computed tokens already. Do you add the placeholders or subtract them?"
    for more in (0, 1, 2):
        yield brings and c.computed + more + c.expected >= c.most, ONE_IS_CERTAIN, plus
        yield c.computed + more + c.expected >= c.most, ONE_IS_CERTAIN, plus
    late = "how many tokens are known before the step in flight has brought one, and how many after that?"
    for early, rule, hint in (
        (1, ONE_LATE, late),
        (0, ONE_LATE, late),
        (3, ONE_EARLY, "your answer is yes one token too early. Does the step in flight bring two for certain?"),
    ):
        yield brings and c.computed + early - c.expected >= c.most, rule, hint
    yield brings and c.known >= c.most, ONE_LATE, late
    prompt = "your answers follow from max_tokens alone. Is the prompt among your tokens?"
    yield brings and known_then >= c.max_tokens, ALL_TOKENS, prompt
    yield known_then >= c.max_tokens, ALL_TOKENS, prompt
    yield (
        c.expected == 1 and known_then >= c.most,
        ONE_IS_CERTAIN,
        "a step that verifies drafts has more than one placeholder. Can it be the last one, too?",
    )
    yield False, ONE_LATE, "your answer is never yes. For which of these does the step in flight bring the last token?"
    anywhere = "your answer is yes as soon as a token is expected. Is that token the last one, and what do you compare?"
    yield brings, ONE_EARLY, anywhere
    yield brings and known_then <= c.most, ONE_EARLY, anywhere


def symptom_of_row(counters: Counters, label: str, yours: Sequence[bool], *, said_yes: bool) -> Advice:
    """Return (rule, hint) for the first wrong answer of a row; it holds for every mistake that gives it."""
    if not any(yours):
        return ONE_LATE, "your answer is yes for none of these. For which one does the step in flight bring the last?"
    if said_yes and counters.expected == 0:
        return NO_STEP, f"yours is yes for this: {label}. Which step in flight would bring the last token?"
    rule = (ONE_IS_CERTAIN if counters.expected > 1 else ONE_EARLY) if said_yes else ONE_LATE
    return rule, (
        f"yours is {'yes' if said_yes else 'no'} for this: {label}. {counted(counters.known, 'token')} known with the "
        f"prompt, at most {counters.most}: how many are certain when the step in flight is done?"
    )
