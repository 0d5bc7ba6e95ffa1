"""Mistakes that show in the number of tokens that was granted: a better rule and hint than the one of the test.

Each of them is counted out only after a test has failed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from course.labtest.phase5.reference_policy import naive_num_new_tokens
from mini_vllm.core.request import Request, RequestStatus

COUNT_FROM_THE_ARGUMENT = "A request wants the tokens that are not computed, counted from the argument."
ALL_ITS_TOKENS = "A request wants all the tokens that it has, generated ones too."
ZERO_IS_NO_LIMIT = "A threshold of 0 is no limit."
THRESHOLD_ALWAYS = "The threshold cuts what one request gets in a step, whatever else is set."
LAST_POSITION = (
    "A RUNNING request gets at most max_model_len - 1 - computed: its very last token is said, never computed."
)
LAST_POSITION_OF_WHO_RUNS = "The last position caps only who is RUNNING."
ALL_OR_NOTHING = "Chunking disabled: who is not RUNNING gets all that the threshold leaves, or 0."
PARTS_FOR_WHO_RUNS = "Chunking disabled: all or nothing is for who is not RUNNING; who runs still takes a part."
OWN_SETTINGS = "Each policy keeps its own settings."


@dataclass(frozen=True, slots=True)
class Question:
    """What `num_new_tokens` was asked, and the settings that it was to be answered with."""

    request: Request
    num_computed: int
    budget: int
    threshold: int
    max_model_len: int
    chunking: bool

    @property
    def runs(self) -> bool:
        return self.request.status is RequestStatus.RUNNING

    def answer(self) -> int:
        return naive_num_new_tokens(
            self.request,
            self.num_computed,
            self.budget,
            threshold=self.threshold,
            max_model_len=self.max_model_len,
            chunking=self.chunking,
        )


def symptom_of_caps(question: Question, yours: object, others: Question) -> tuple[str, str]:
    """Return (rule, hint) of the first mistake that gives the number `yours`, else empty texts.

    `others` is the same question to the policy with other settings that the test made as well.
    """
    for wrong_answer, rule, hint in mistakes(question, others):
        if yours == wrong_answer != question.answer():
            return rule, hint
    return "", ""


def mistakes(question: Question, others: Question) -> Iterator[tuple[int, str, str]]:
    """Yield the answer that a mistake gives, the rule that it breaks, and a hint."""
    request, counted, length = question.request, question.num_computed, question.max_model_len
    counter = request.num_computed_tokens
    yield (
        replace(question, num_computed=counter).answer(),
        COUNT_FROM_THE_ARGUMENT,
        f"the argument says {counted}, the request's own counter {counter}. Which one knows of a prefix hit?",
    )
    yield (
        min(question.answer(), max(0, request.num_prompt_tokens - counted)),
        ALL_ITS_TOKENS,
        f"it has {request.num_prompt_tokens} prompt tokens and {request.num_output_tokens} generated ones: which of "
        "them are in your count?",
    )
    if question.chunking and question.threshold == 0:
        yield (
            0,
            ZERO_IS_NO_LIMIT,
            "which of the three arguments of `clamp` is which, and where does your code meet the 0?",
        )
    if question.runs:
        yield (
            replace(question, max_model_len=length + 1).answer(),
            LAST_POSITION,
            f"{counted} are computed. How many may follow until {length - 1} are?",
        )
        yield (
            replace(question, max_model_len=10**9).answer(),
            LAST_POSITION,
            f"{counted} are computed and max_model_len is {length}: where does your code look at it?",
        )
        if not question.chunking:
            yield 0, PARTS_FOR_WHO_RUNS, "this request runs: where does your code ask for its status?"
    else:
        yield (
            min(question.answer(), max(0, length - 1 - counted)),
            LAST_POSITION_OF_WHO_RUNS,
            f"this request is {request.status.name}: which of the four caps hold for it?",
        )
        if not question.chunking:
            left_by_threshold = replace(question, budget=10**9).answer()
            yield (
                replace(question, chunking=True).answer(),
                ALL_OR_NOTHING,
                f"the threshold leaves {left_by_threshold}, the budget is {question.budget}. Does all of it fit?",
            )
            yield (
                0,
                ALL_OR_NOTHING,
                f"the threshold leaves {left_by_threshold}, the budget is {question.budget}. Which of the two cut it?",
            )
    for chunking in (question.chunking, True):
        yield (
            replace(question, threshold=0, chunking=chunking).answer(),
            THRESHOLD_ALWAYS,
            f"for which requests does your code forget the threshold of {question.threshold}?",
        )
    yield (
        others.answer(),
        OWN_SETTINGS,
        "another policy, with other settings, was made after this one, and your number follows from those. Where do "
        "you keep yours?",
    )
