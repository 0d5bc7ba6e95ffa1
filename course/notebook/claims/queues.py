"""Claims about queues and the order of a plan."""

from dataclasses import replace

from course.notebook.claims.claim import SETTINGS, Claim, Setup, request, true_or_false, whether
from course.views.prediction import Question

SUBJECT = "queues"
CROWD = [request(name, range(100 * i, 100 * i + 32), 8) for i, name in enumerate("ABCDE")]
CROWDED = replace(SETTINGS, num_gpu_blocks=22)

CLAIMS = [
    Claim(
        "Ten is more than one",
        "Give interactive requests priority=10 and batch jobs priority=1.",
        "A is the batch job, B the interactive request, with these priorities. Only one may run at a time.",
        Question("Which one is served first?", SUBJECT, "choice", ("A", "B")),
        "The lower value is the more urgent one, as with nice. This advice serves batch jobs before interactive "
        "requests, without any error message.",
        {
            "one at a time": Setup(
                [request("A", range(16), 3, priority=1), request("B", range(50, 66), 3, priority=10)],
                replace(SETTINGS, policy="priority", max_num_seqs=1),
            )
        },
        lambda run: min("AB", key=run.admitted),
    ),
    Claim(
        "Decodes go first",
        "The scheduler plans all decodes first, and gives what is left of the budget to prefills.",
        "Budget 12, threshold 4. A and C have prompts of 40 tokens, B one of 4. From step 1 on B decodes.",
        true_or_false(SUBJECT),
        "The plan is A, B, C in every step: A's chunk is before B's decode, until B finishes. The loop goes over "
        "RUNNING in its own order and does not distinguish prefill from decode. The effect is similar, because "
        "WAITING requests come after all running ones. But B's token is ready when the step is over, with A's and C's "
        "chunks in it. A small budget or threshold protects B's latency, its position does not.",
        {
            "B decodes": Setup(
                [request("A", range(40), 2), request("B", range(100, 104), 10), request("C", range(200, 240), 2)],
                replace(SETTINGS, max_num_batched_tokens=12, long_prefill_token_threshold=4),
            )
        },
        whether(lambda run: run.scheduled(1)[0] == "B"),
        lambda run: 1,
    ),
    Claim(
        "The queue is long",
        "Many requests wait, and few blocks are free: a larger max_num_batched_tokens will not admit one of them "
        "sooner.",
        "Five requests with 32 prompt tokens that generate 8, in 21 blocks. First a budget of 64, then of 128.",
        true_or_false(SUBJECT),
        "Both runs are the same, step by step: in steps 1 to 7 two tokens are computed of 64 or of 128, and three "
        "requests wait. The shortage is in blocks. Find out which of three limits applies before you raise one: the "
        "budget (the bar is full), max_num_seqs, or memory (few free blocks).",
        {
            "budget 64": Setup(CROWD, CROWDED),
            "budget 128": Setup(CROWD, replace(CROWDED, max_num_batched_tokens=128)),
        },
        whether(lambda small, large: all(large.admitted(name) >= small.admitted(name) for name in "ABCDE")),
        lambda run: 2,
    ),
]
