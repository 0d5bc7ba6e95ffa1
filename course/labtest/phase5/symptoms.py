"""Mistakes that are visible in the answer: a better rule and hint than those of the test.

The answer of each mistake is computed only after a test has failed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from course.labtest.phase5.reference_policy import naive_num_new_tokens
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request, RequestStatus

COUNT_FROM_THE_ARGUMENT = "A request needs the tokens that are not computed, counted from the argument."
ALL_ITS_TOKENS = "A request needs all the tokens that it has, generated ones too."
NO_MORE_THAN_IT_HAS = "A request gets at most the tokens it has that are not computed."
ZERO_IS_NO_LIMIT = "A threshold of 0 is no limit."
THRESHOLD_ALWAYS = "The threshold cuts what one request gets in a step, whatever else is set."
LAST_POSITION = (
    "A RUNNING request gets at most max_model_len - 1 - computed: its very last token is generated, never computed."
)
LAST_POSITION_IF_RUNNING = "The last position caps only RUNNING requests."
ALL_OR_NOTHING = "Chunking disabled: a request that is not RUNNING gets all that the threshold leaves, or 0."
PARTS_IF_RUNNING = (
    "Chunking disabled: all or nothing holds for requests that are not RUNNING; a RUNNING one still gets a part."
)
OWN_SETTINGS = "Each policy keeps its own settings."


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of a call of `num_new_tokens`, and the settings of the policy."""

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


def symptom_of_caps(question: Question, yours: int, others: Question) -> tuple[str, str]:
    """Return (rule, hint) of the first mistake that gives the number `yours`, else empty texts.

    `others` is the same call on the policy with other settings that the test made as well.
    """
    for wrong_answer, rule, hint in mistakes(question, others):
        if yours == wrong_answer != question.answer():
            return rule, hint
    num_uncomputed = question.request.num_tokens - question.num_computed
    if yours > num_uncomputed:
        return (
            NO_MORE_THAN_IT_HAS,
            f"only {num_uncomputed} of its tokens are not computed: from which numbers is yours made?",
        )
    return "", ""


def mistakes(question: Question, others: Question) -> Iterator[tuple[int, str, str]]:
    """Yield the answer that a mistake gives, the rule that it breaks, and a hint."""
    request, counted, length = question.request, question.num_computed, question.max_model_len
    counter = request.num_computed_tokens
    yield (
        replace(question, num_computed=counter).answer(),
        COUNT_FROM_THE_ARGUMENT,
        f"the argument is {counted}, the request's own counter {counter}. Which of them includes a prefix hit?",
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
            f"{counted} are computed and max_model_len is {length}: where does your code use it?",
        )
        if not question.chunking:
            yield 0, PARTS_IF_RUNNING, "this request is RUNNING: where does your code check the status?"
    else:
        yield (
            min(question.answer(), max(0, length - 1 - counted)),
            LAST_POSITION_IF_RUNNING,
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
        "another policy, with other settings, was made after this one, and your number follows from those. Where "
        "does each policy keep its own?",
    )


def hint_of_guard(
    request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager, *, admitted: bool
) -> str:
    """Return a hint for a wrong answer of `admits`: the part of the sum that alone explains it, else a question.

    A wrong yes or no has several possible causes, so a part is named only if no other part would explain it.
    """
    size, num_free = kv.block_size, kv.num_free_blocks
    idle = len(set(hit_blocks) - kv.ref_counts().keys())

    def needed_if(rounded: Callable[[int], int]) -> int:
        held = len(hit_blocks) - idle + sum(len(kv.block_ids(other.request_id)) for other in running)
        return sum(rounded(one.num_tokens) for one in (request, *running)) - held + len(running)

    needed = needed_if(lambda num_tokens: cdiv(num_tokens, size))
    if not hit_blocks and not running:
        return (
            f"{request.num_tokens} tokens in blocks of {size}: needed {needed}, free {num_free}. Which of these is "
            f"another number in your code, or how do you compare them?"
        )
    missing = sum(cdiv(other.num_tokens, size) - len(kv.block_ids(other.request_id)) for other in running)
    rounding = f"how many blocks of {size} does each request fill, its last one perhaps in part?"
    suspects = [
        (f"{idle} of the hit blocks are free: are they still free when the request has them?", needed - idle),
        ("where do the next tokens of each running request go?", needed - len(running)),
        ("which blocks do the running requests still need for the tokens they have?", needed - missing),
        ("how many of the hit blocks need no new block?", needed + len(hit_blocks) - idle),
        (rounding, needed_if(lambda num_tokens: num_tokens // size)),
        (rounding, needed_if(lambda num_tokens: num_tokens // size + 1)),
        (rounding, needed_if(lambda num_tokens: round(num_tokens / size))),
    ]
    fitting = {hint for hint, total in suspects if (total <= num_free) == admitted != (needed <= num_free)}
    if len(fitting) == 1:
        return fitting.pop()
    return (
        "which blocks will be in use when all requests hold their tokens of today, and each running one a block more?"
    )
