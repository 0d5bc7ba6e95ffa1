"""Claims about preemption."""

from dataclasses import replace

from course.notebook.claims.claim import SETTINGS, Claim, Setup, request, true_or_false, whether
from course.notebook.run_facts import RunFacts
from course.views.prediction import Question

SUBJECT = "preemption"
SMALL = replace(SETTINGS, num_gpu_blocks=13)
PAIR = [request("A", range(16), 20), request("B", range(100, 116), 20)]
RANKED = [request("A", range(16), 20, priority=5), request("B", range(50, 66), 20, priority=6)]


def victim(run: RunFacts) -> str:
    """Return the first victim, or that there is none."""
    return run.preempted(run.first_preemption())[0] if run.num_preemptions else "neither"


CLAIMS = [
    Claim(
        "All work is lost",
        "A preempted request loses all its progress. It starts over from its first token.",
        "A and B have prompts of 16 tokens and generate 20 each, in 12 blocks of 4. B is preempted in step 9, with 24 "
        "tokens computed, and resumes when A is finished.",
        true_or_false(SUBJECT),
        "B resumes in step 20 with a hit of 12 tokens and computes 13, not 25. num_computed_tokens was reset to 0, "
        "the 9 tokens that B had generated were kept, and its blocks went to the free queue with their content. A "
        "took some of them, tail first, so the beginning of B was still there. Without prefix caching the claim is "
        "nearly true: K and V are lost, the text is not.",
        {"the pair": Setup(PAIR, SMALL)},
        whether(lambda run: run.hit_of("B") == 0),
        lambda run: run.resumed("B"),
    ),
    Claim(
        "An urgent arrival preempts",
        "With PRIORITY scheduling, a more urgent request preempts a running one as soon as it arrives.",
        "A and B (priority 5) fill most of the pool. C (priority 0, the most urgent) arrives in step 3 and needs 4 "
        "blocks; 2 are free.",
        true_or_false(SUBJECT),
        "C starts in step 8, when A and B are finished. An arrival never preempts. Only a running request that cannot "
        "get a block does. Priority decides which request is admitted next, and which one is the victim when a "
        "preemption is needed.",
        {
            "C is urgent": Setup(
                [
                    request("A", range(16), 8, priority=5),
                    request("B", range(50, 66), 8, priority=5),
                    request("C", range(90, 106), 4, step=3, priority=0),
                ],
                replace(SMALL, policy="priority"),
            )
        },
        whether(lambda run: run.num_preemptions > 0),
        lambda run: 3,
    ),
    Claim(
        "Equals are safe",
        "Only a request of lower priority can be a victim. Among equals no request is preempted.",
        "FCFS, so all are equal. The pool has 9 blocks. A has 19 prompt tokens (5 blocks), B 16 (4 blocks). B is the "
        "first to need another block.",
        Question("Which request is preempted?", SUBJECT, "choice", ("A", "B", "neither")),
        "The victim under FCFS is the last of RUNNING, whichever request needs the block. Here that is B, and B itself "
        "needs the block: in step 1 it is preempted for itself, and is not in the plan of that step. Without a victim, "
        "B would hold 4 blocks while waiting, and another request could wait for those.",
        {
            "two equals": Setup(
                [request("A", range(19), 8), request("B", range(100, 116), 8)], replace(SETTINGS, num_gpu_blocks=10)
            )
        },
        victim,
        lambda run: 1,
    ),
    Claim(
        "First to go, first to come back",
        "A victim is put at the front of the waiting queue, so it is always the first to resume.",
        "The pair of the first card, now with PRIORITY: A has 5, B has 6, and an urgent C (0) arrives in step 5. B is "
        "preempted in step 9.",
        Question("Which one runs first after that?", SUBJECT, "choice", ("B", "C")),
        "C runs in step 10, B in step 20. A priority queue has no front: the victim returns to the heap, ordered by "
        "priority and arrival. Under FCFS the claim is true: B and C are then both admitted in step 20, B first.",
        {
            "PRIORITY": Setup(
                [*RANKED, request("C", range(90, 106), 3, step=5, priority=0)], replace(SMALL, policy="priority")
            )
        },
        lambda run: "B" if run.resumed("B") < run.admitted("C") else "C",
        lambda run: run.first_preemption() + 1,
    ),
    Claim(
        "A step with a preemption admits no request",
        "In a step with a preemption, no waiting request is admitted, even if it would fit.",
        "The same pair. C is tiny (4 tokens, 1 block) and arrives in step 9, the step in which B is preempted. 5 "
        "blocks are free after it.",
        true_or_false(SUBJECT),
        "5 blocks are free after step 9 and C needs 1, and still it starts in step 10. A preemption means that memory "
        "is short; a request admitted then would soon be a victim too.",
        {
            "a tiny C": Setup(
                [*RANKED, request("C", range(90, 94), 3, step=9, priority=0)], replace(SMALL, policy="priority")
            )
        },
        whether(lambda run: run.admitted("C") != run.first_preemption()),
        lambda run: run.first_preemption(),
    ),
]
