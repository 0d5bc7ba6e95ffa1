"""Claims about the prefix cache."""

from dataclasses import replace

from course.notebook.claims.claim import SETTINGS, Claim, Setup, request, true_or_false, whether
from course.views.prediction import Question

SUBJECT = "prefix cache"

CLAIMS = [
    Claim(
        "Shared in the same step",
        "Two equal prompts that arrive together can share blocks in their first step, before K and V are computed.",
        "A and B have the same 20 tokens and arrive together.",
        true_or_false(SUBJECT),
        "In step 0 A computes 20 tokens and B 4, after a hit of 16. Full blocks enter the cache when they are "
        "allocated. That is safe: within one forward pass, each layer writes K and V of all its tokens before it "
        "attends.",
        {"together": Setup([request("A", range(20), 2), request("B", range(20), 2)], SETTINGS)},
        whether(lambda run: run.admitted("B") == 0 and run.hit_of("B") > 0),
    ),
    Claim(
        "A full hit costs one token",
        "If a whole prompt is in the cache, one token is computed, for the logits to sample from.",
        "A has 16 tokens. B has the same 16. C has the same 16 and 2 more. Each arrives when the one before is "
        "finished.",
        true_or_false(SUBJECT),
        "B computes 4 tokens, a whole block, with a hit of 12. A hit is made of whole blocks, and has at most "
        "num_tokens - 1 tokens: of 15 tokens, 3 blocks. C has a longer prompt and computes less: 2 tokens, because 16 "
        "of at most 17 are 4 blocks. Only a prompt of whole blocks plus one token computes exactly one.",
        {
            "again": Setup(
                [request("A", range(16), 2), request("B", range(16), 2, step=3), request("C", range(18), 2, step=6)],
                SETTINGS,
            )
        },
        whether(lambda run: run.tokens_of("B", run.admitted("B")) == 1),
        lambda run: run.admitted("B"),
    ),
    Claim(
        "Shared is shared",
        "Two prompts begin with the same 18 tokens. The second one computes only the tokens after those.",
        "A and B share 18 tokens, and have 3 of their own. Blocks hold 4 tokens.",
        Question("How many tokens does B compute in its first step?", SUBJECT, unit="tokens"),
        "B computes 5 tokens, not 3. Tokens 16 and 17 are in a block with two of A's own, so that block's hash "
        "differs. 18 // 4 = 4 whole blocks are shared. With blocks of 16, a common prefix of 31 tokens shares 16.",
        {
            "18 in common": Setup(
                [request("A", [*range(18), 1, 2, 3], 2), request("B", [*range(18), 9, 9, 9], 2, step=2)], SETTINGS
            )
        },
        lambda run: run.tokens_of("B", run.admitted("B")),
        lambda run: run.admitted("B"),
    ),
    Claim(
        "The tail goes first",
        "Blocks of a finished request are handed out again from its tail, so the beginning of its prompt is found the "
        "longest.",
        "A has 13 tokens in 4 blocks and is finished, and the pool has no other blocks. B takes two of them. Then C "
        "arrives, with A's prompt.",
        true_or_false(SUBJECT),
        "A's blocks are freed tail first: the queue is 4, 3, 2, 1, and B takes 4 and 3. C finds blocks 1 and 2: 8 "
        "tokens. Had B taken 1 and 2, C would find nothing. The search starts at the first block and stops at the "
        "first miss, and a block's hash is chained to those before it: a middle without its beginning is useless.",
        {
            "A, then B, then A's prompt": Setup(
                [
                    request("A", range(13), 1),
                    request("B", range(100, 105), 1, step=2),
                    request("C", range(13), 1, step=4),
                ],
                replace(SETTINGS, num_gpu_blocks=5),
            )
        },
        whether(lambda run: run.blocks_of("B", 2) == run.blocks_of("A", 0)[:1:-1] and run.hit_of("C") > 0),
        lambda run: 2,
    ),
]
