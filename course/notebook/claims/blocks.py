"""Claims about the number of blocks."""

from dataclasses import replace

from course.notebook.claims.claim import SETTINGS, Claim, Setup, request, true_or_false, whether
from course.notebook.run_facts import RunFacts
from course.views.prediction import Question
from mini_vllm.core.cdiv import cdiv

SUBJECT = "blocks"
HUNDRED = {"100 tokens": Setup([request("A", [7], 100)], replace(SETTINGS, block_size=16, num_gpu_blocks=12))}


def takes_what_is_missing(run: RunFacts) -> bool:
    """Return whether each allocation takes the blocks of all tokens so far, less those held already."""
    size = run.recording.info.block_size
    shares = [share for record in run.recording.steps for share in record["scheduled"]]
    return all(len(share["blocks"]) == cdiv(share["computed"] + share["n"], size) for share in shares)


CLAIMS = [
    Claim(
        "A hundred tokens, five blocks",
        "A block has 16 tokens, so a token costs 0.05 blocks, and 100 decoded tokens cost 5.",
        "A prompt of 1 token, 100 generated tokens, blocks of 16.",
        Question("How many blocks does the request take?", SUBJECT, unit="blocks"),
        "There are 7 blocks, taken before tokens 0, 16, 32, 48, 64, 80 and 96. 1 / 16 is 0.0625, not 0.05, and 6.25 "
        "blocks are 7. The last generated token is never computed: 1 + 100 tokens, K and V of 100.",
        HUNDRED,
        lambda run: len(run.blocks_of("A", run.last_step)),
        lambda run: run.holds("A", 2),
    ),
    Claim(
        "One call, few blocks",
        "A call of allocate_slots takes ceil((computed + new) / block_size) blocks, less those that the request holds.",
        "The same run: a prompt of 1 token, 100 generated tokens, blocks of 16.",
        true_or_false(SUBJECT),
        "In most steps that is 0: 100 calls take 7 blocks. A formula often seen, ceil(new_tokens / block_size) for "
        "each call, would take 100.",
        HUNDRED,
        whether(takes_what_is_missing),
        lambda run: run.holds("A", 2),
    ),
    Claim(
        "Fifteen thousand six hundred and twenty-five",
        "1,000 requests of 250 tokens need 15,625 blocks of 16. With 10,000 blocks, about 300 must be preempted to "
        "free the missing 5,625.",
        "The same, a hundred times smaller: 10 requests of 250 tokens, 100 usable blocks of 16.",
        Question("How many requests run at once?", SUBJECT, unit="requests"),
        "One request holds 16 blocks; the last has 10 tokens and is not shared. So all 1,000 need 16,000. 625 fit, and "
        "375 are too many. In the run 6 of 10 fit, with 4 blocks to spare, and the other 4 are admitted when those are "
        "finished. Round up per request, before the sum.",
        {
            "10 requests": Setup(
                [request(f"r{i}", [i] * 247, 4) for i in range(10)],
                replace(
                    SETTINGS,
                    max_num_seqs=10,
                    max_model_len=256,
                    max_num_batched_tokens=2560,
                    block_size=16,
                    num_gpu_blocks=101,
                ),
            )
        },
        lambda run: run.most_at_once,
    ),
]
